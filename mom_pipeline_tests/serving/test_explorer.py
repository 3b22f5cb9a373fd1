"""What the explorer shows of a model, without a browser."""

from dataclasses import replace

import numpy as np
import pytest

from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.serving.answers import UnknownUser
from mom_pipeline.serving.explorer.explorer import (
    Explorer,
    TextIndex,
    component_places,
    moved_apart,
    radii,
    shown_items,
)

from .conftest import figures


@pytest.fixture
def served(make):
    return make(1)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("ab", [1, 3, 2]),  # beginnings first
        ("AB", [1, 3, 2]),
        ("straße", [4]),
        ("STRASSE", [4]),
        ("\n", [5]),
        ("e\nt", [5]),
        ("tail", [5]),
        ("c\na", []),  # nothing is found across two texts
        ("zz", []),
    ],
)
def test_search_finds_parts_of_a_text(part, expected):
    index = TextIndex(["", "abc", "xab", "ABe", "Straße", "one\ntail"])
    assert index.search(part, 10) == expected


def test_search_is_a_filter():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ab\n"), 4)) for _ in range(200)]
    index = TextIndex(texts)
    for part in ("a", "ab", "b\na", "aaaa", "\n\n"):
        found = index.search(part, len(texts))
        assert sorted(found) == [i for i, text in enumerate(texts) if part in text]
        begins = [texts[i].startswith(part) for i in found]
        assert begins == sorted(begins, reverse=True)
        assert index.search(part, 3) == found[:3]


def test_items_are_found_by_id_and_by_name(served):
    catalogue = Catalogue({"1/7": Item("1/7", "Blue teapot"), "1/9": Item("1/9", "Teacup 1/7")})
    explorer = Explorer(served, catalogue)
    assert [item.item for item in explorer.search("TEA", 5).items] == ["1/9", "1/7"]
    assert [item.name for item in explorer.search("1/7", 5).items] == ["Blue teapot", "Teacup 1/7"]
    found = explorer.search("user 19", 3)
    assert (found.users, found.more) == (("user 19", "user 190", "user 191"), True)
    assert not explorer.search("user 19", 50).more


def test_without_a_text_the_most_active_come_first(served):
    matches = Explorer(served, Catalogue()).search("", 4)
    lengths = np.diff(served.histories.indptr)
    first = [lengths[served.user_positions[user]] for user in matches.users]
    assert first == sorted(lengths, reverse=True)[:4]
    assert matches.items[0].item == served.item_ids[served.model.popularity.argmax()]


def test_a_history_is_that_of_the_model(served):
    explorer, position = Explorer(served, Catalogue()), 50
    history = explorer.history("user 50", 1000)
    row = served.histories[[position]].toarray()[0]
    assert {entry.item: entry.weight for entry in history.items} == {
        str(served.item_ids[y]): row[y] for y in np.flatnonzero(row)
    }
    weights = [entry.weight for entry in history.items]
    assert weights == sorted(weights, reverse=True)
    short = explorer.history("user 50", 2)
    assert (len(short.items), short.total) == (2, len(history.items))
    with pytest.raises(UnknownUser, match="'nobody'"):
        explorer.history("nobody", 3)


def test_the_map_places_items_between_their_components(served):
    moved = {"2024-02-28": (1.0,), "2024-02-29": (0.1, 0.2, 0.3), "2024-03-01": (0.4, 0.5, 0.6)}
    answer = Explorer(replace(served, figures=figures(moved)), Catalogue()).map
    assert answer.days == ("2024-02-29", "2024-03-01")  # the first had other components
    drift = [component.drift for component in answer.components]
    assert drift == [(0.1, 0.4), (0.2, 0.5), (0.3, 0.6)]
    O, pi = served.model.item_probs, served.model.weights
    shown = served.item_ids[(O > 0).any(axis=1)]
    assert {item.item for item in answer.items} == set(shown)
    assert 0 < len(shown) < len(O)
    popularity = [item.popularity for item in answer.items]
    assert popularity == sorted(popularity, reverse=True)
    for item in answer.items:
        joint = O[served.item_positions[item.item]] * pi
        assert item.component == joint.argmax() + 1
        assert item.share == pytest.approx(joint.max() / joint.sum())


def test_like_components_stand_side_by_side():
    a, b = np.array([0.9, 0.1, 0, 0]), np.array([0, 0, 0.5, 0.5])
    O = np.stack([a, b, 0.99 * a + 0.01 * b, 0.99 * b + 0.01 * a], axis=1)
    places = component_places(O)
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), 1)
    assert places[0] @ places[2] == pytest.approx(0, abs=1e-9)
    assert places[1] @ places[3] == pytest.approx(0, abs=1e-9)


def test_circles_do_not_cover_each_other():
    radius = radii(np.linspace(0, 1, 40))
    assert (np.diff(radius) > 0).all()
    places = moved_apart(np.zeros((40, 2)), radius)
    apart = np.linalg.norm(places[:, None] - places, axis=2) + 9 * np.eye(40)
    assert (apart > 0.9 * (radius[:, None] + radius)).all()
    np.testing.assert_array_equal(places, moved_apart(np.zeros((40, 2)), radius))


def test_a_large_catalogue_shows_some_hundred_items():
    rng = np.random.default_rng(0)
    O = rng.dirichlet(np.ones(5000), 200).T
    shown = shown_items(O, O.sum(axis=1))
    assert 160 <= len(shown) <= 160 + 2 * 200
    assert set(O.argmax(axis=0)) <= set(shown)


def test_a_model_of_one_item_has_a_map(served):
    one = {"item_probs": np.ones((1, 1)), "weights": np.ones(1), "popularity": np.ones(1)}
    model, ids = replace(served.model, **one), np.array(["only"], dtype=object)
    answer = Explorer(replace(served, model=model, item_ids=ids), Catalogue()).map
    assert [item.item for item in answer.items] == ["only"]
    assert answer.days == ()
