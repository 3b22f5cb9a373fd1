"""From a data frame to lists and components with their ids, and how a notebook shows them."""

import numpy as np
import pandas as pd
import pytest

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import InvalidInteractions, NotFitted

HOSTILE = "<b onclick=alert(1)>\"jazz\" & 'folk'</b>"


@pytest.fixture(scope="module")
def frame(counts):
    """Rows of the first users, shuffled, one item with a name that is markup."""
    pairs = counts[:1500].tocoo()
    names = np.array([HOSTILE, *(f"item-{i}" for i in range(1, counts.shape[1]))], dtype=object)
    rows = pd.DataFrame({"who": pairs.row + 7_000, "what": names[pairs.col], "n": pairs.data})
    return rows.sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def model(frame):
    model = MethodOfMoments(4, ranking="components")
    return model.fit_frame(frame, user="who", item="what", weight="n")


def test_fit_and_lists_are_those_of_the_matrix_with_the_ids_of_the_frame(frame, model):
    table = frame.pivot_table(index="who", columns="what", values="n", aggfunc="sum", fill_value=0)
    table = table[frame["what"].unique()]
    other = MethodOfMoments(4, ranking="components").fit(table.to_numpy())
    np.testing.assert_allclose(model.item_probs, other.item_probs, atol=1e-6)
    lists = model.recommend_frame(frame, n=3)
    assert list(lists) == ["who", "rank", "what", "score"]
    assert set(lists["who"]) == set(frame["who"])
    assert lists.groupby("who")["rank"].apply(list).map(lambda ranks: ranks == [1, 2, 3]).all()
    assert lists.merge(frame, on=["who", "what"]).empty, "what was taken is not listed"
    ids, scores = model.recommend(table.loc[[lists["who"].iloc[0]]].to_numpy(), n=3)
    assert list(lists["what"][:3]) == list(table.columns[ids[0]])
    np.testing.assert_allclose(lists["score"][:3], scores[0])


def test_rows_without_a_weight_count_once():
    frame = pd.DataFrame({"user": list("aabbbcc"), "item": [1, 2, 1, 2, 2, 2, 3]})
    model = MethodOfMoments(1, rows="counts", ranking="components").fit_frame(frame)
    weighted = frame.groupby(["user", "item"], as_index=False).size()
    other = MethodOfMoments(1, rows="counts", ranking="components")
    other.fit_frame(weighted, weight="size")
    np.testing.assert_allclose(model.item_probs, other.item_probs)
    assert sorted(model.components_frame()["item"]) == [1, 2, 3]


def test_somebody_new_gets_a_list_and_unknown_items_say_nothing(frame, model):
    known = frame["what"].iloc[:2].tolist()
    new = pd.DataFrame({"who": "somebody", "what": [*known, "never seen"], "n": 1.0})
    lists = model.recommend_frame(new, n=5)
    pd.testing.assert_frame_equal(lists, model.recommend_frame(new[:2], n=5))
    assert set(lists["who"]) == {"somebody"}
    assert not set(lists["what"]) & set(known)


def test_components_carry_the_ids_and_their_probabilities(model):
    components = model.components_frame(3)
    assert list(components["component"].unique()) == [1, 2, 3, 4]
    assert list(components["rank"][:3]) == [1, 2, 3]
    assert (components.groupby("component")["probability"].diff().dropna() <= 0).all()
    np.testing.assert_allclose(
        components.groupby("component")["probability"].first(), model.item_probs.max(axis=0)
    )
    np.testing.assert_allclose(components.groupby("component")["weight"].first(), model.weights)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"user": ["a"], "sku": ["b"]}, "no column 'item'; it has 'user', 'sku'"),
        ({"user": ["a", None], "item": ["b", "c"]}, "'user' is empty in 1 of 2 rows"),
        ({"user": ["a"], "item": ["b"], "n": [-1.0]}, "Negative values"),
    ],
)
def test_a_frame_that_cannot_be_read_is_refused(frame, message):
    weight = "n" if "n" in frame else None
    with pytest.raises(InvalidInteractions, match=message):
        MethodOfMoments(1).fit_frame(pd.DataFrame(frame), weight=weight)


def test_a_model_of_positions_has_no_ids_to_show(frame, counts):
    with pytest.raises(NotFitted, match="fit it by `fit_frame`"):
        MethodOfMoments(2, ranking="components").fit(counts[:500]).recommend_frame(frame)


def test_a_notebook_shows_ids_as_text(model, frame):
    few = pd.DataFrame({"user": list("abcd"), "item": [HOSTILE, HOSTILE, HOSTILE, "x"]})
    pages = [
        MethodOfMoments(1, ranking="components").fit_frame(few)._repr_html_(),
        model.components_frame(300)[lambda c: c["what"] == HOSTILE]._repr_html_(),
        model.recommend_frame(frame, n=300)[lambda c: c["what"] == HOSTILE]._repr_html_(),
    ]
    for page in pages:
        assert "<b onclick" not in page
        assert "&lt;b onclick" in page
    assert "n_components=4, ranking=&#x27;components&#x27;)" in model._repr_html_()
    assert "Not fitted" in MethodOfMoments(3)._repr_html_()
