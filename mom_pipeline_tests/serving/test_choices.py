"""Lists among some items, names, items left out, and fresh events; in Python and over HTTP."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from mom_pipeline import Recommender
from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.serving.answers import UnknownGroup
from mom_pipeline.serving.diff import compare_versions
from mom_pipeline.serving.recommender import ItemFilter
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings
from mom_pipeline_tests.serving.service import running_service

N, D, K = 150, 50, 3
NAME = '<b>"x"</b>'
CATALOGUE = Catalogue(
    {f"item {y}": Item(f"item {y}", NAME, "Odd|All" if y % 2 else "All") for y in range(D)}
)


@pytest.fixture(scope="module", params=["components", "three-moment", "all parts"])
def served(request):
    _, X = simulate(N, D, K, items_per_user=8, seed=1)
    ranking = "components" if request.param == "components" else "three-moment"
    weights = None
    if request.param == "all parts":
        weights = RankingWeights(popularity=0.1, ease=0.4, low_pass=0.5, components=1.5)
    model = MethodOfMoments(K, ranking=ranking, ranking_weights=weights).fit(X).fitted
    items, users = (
        np.array([f"{kind} {n}" for n in range(size)], dtype=object)
        for kind, size in (("item", D), ("user", N))
    )
    manifest = Manifest("a", "2024-03-01", "1", "rows", asdict(ModelSettings()), {}, {})
    return ServedModel(manifest, model, items, users, X)


@pytest.fixture(scope="module")
def recommender(served):
    return Recommender(served, catalogue=CATALOGUE)


def items_of(answer):
    return [line.item for line in answer.items]


@pytest.mark.parametrize(
    "choice",
    [
        ItemFilter(only=tuple(f"item {y}" for y in range(3, 30, 3))),
        ItemFilter(without=tuple(f"item {y}" for y in range(40))),
        ItemFilter(group="Odd"),
        ItemFilter(only=tuple(f"item {y}" for y in range(20)), without=("item 3",), group="Odd"),
    ],
)
def test_a_list_among_some_items_is_the_whole_list_without_the_others(recommender, choice):
    among = recommender.choose(choice)
    allowed = {f"item {y}" for y in np.flatnonzero(among.allowed)}
    assert 0 < len(allowed) < D
    for user in ("user 0", "user 7", "user 149", "nobody"):
        whole = [item for item in items_of(recommender.recommend(user, D)) if item in allowed]
        assert items_of(recommender.recommend(user, 5, among=among)) == whole[:5]


def test_lists_of_many_rows_are_exact_among_some_items_too(served):
    only = np.arange(D) % 3 == 0
    whole = served.model.best(served.histories, D).items
    some = served.model.best(served.histories, 5, only=only).items
    for listed, chosen in zip(whole, some, strict=True):
        expected = [y for y in listed if y >= 0 and only[y]][:5]
        assert [y for y in chosen if y >= 0] == expected


def test_a_choice_that_leaves_nothing_says_so(recommender):
    among = recommender.choose(ItemFilter(only=("no such item",)))
    answer = recommender.recommend("user 0", 5, among=among)
    assert answer.items == ()
    assert answer.unknown_items == ("no such item",)
    assert "the choice leaves 0 items" in answer.note
    assert "the choice leaves 0 items" in recommender.recommend("nobody", 5, among=among).note


def test_an_unknown_group_is_refused_with_what_is_near(recommender):
    with pytest.raises(UnknownGroup, match="'Od'; did you mean 'Odd'"):
        recommender.choose(ItemFilter(group="Od"))
    with pytest.raises(UnknownGroup, match="known groups: 'All', 'Odd'"):
        recommender.choose(ItemFilter(group="x"))


def test_fresh_events_count_like_those_of_the_history(served, recommender):
    """Half of a history in the model and half of it fresh are the whole history."""
    row = served.histories[[4]]
    first = sorted(row.indices)[: row.nnz // 2]
    kept, fresh = served.histories.tolil(), []
    for y in row.indices:
        if y not in first:
            fresh += [f"item {y}"] * int(row[0, y])
            kept[4, y] = 0
    halved = Recommender(replace(served, histories=kept.tocsr()))
    assert items_of(halved.recommend("user 4", 10)) != items_of(recommender.recommend("user 4", 10))
    answer = halved.recommend("user 4", 10, events=[*fresh, "never seen"])
    assert items_of(answer) == items_of(recommender.recommend("user 4", 10))
    assert answer.unknown_items == ("never seen",)


def test_what_is_left_out_is_in_no_list(served):
    left_out = CATALOGUE.left_out(["item 2"], ["Odd"])
    recommender = Recommender(served, catalogue=CATALOGUE, left_out=left_out)
    for user in ("user 0", "nobody"):
        listed = items_of(recommender.recommend(user, D))
        assert listed
        assert not left_out & set(listed)
    assert not left_out & {line.item for line in recommender.similar("item 4", D).items}


def test_names_are_in_the_answers(recommender):
    answer = recommender.recommend("user 0", 3)
    assert {line.name for line in answer.items} == {NAME}
    assert {line.name for line in recommender.similar("item 3", 3).items} == {NAME}
    labels = {term.label for term in recommender.explain("user 0", answer.items[0].item).history}
    assert labels <= {f"{NAME} (item {y})" for y in range(D)}


def test_versions_differ_in_what_was_changed(served):
    same = compare_versions(served, served)
    assert (same.settings, same.same, same.mean_kept) == ({}, N, 1.0)
    assert max(same.drift) == 0
    changed = {**served.manifest.settings, "n_components": 9}
    swapped = served.model.item_probs[::-1].copy()
    other = replace(
        served,
        manifest=replace(served.manifest, version="b", settings=changed, metrics={"map": 0.5}),
        model=replace(served.model, item_probs=swapped),
        user_ids=served.user_ids[:100],
        histories=served.histories[:100],
    )
    difference = compare_versions(served, other)
    assert difference.settings == {"n_components": (100, 9)}
    assert difference.metrics == {"map": (None, 0.5)}
    assert (difference.users, difference.compared) == ((N, 100), 100)
    assert min(difference.drift) > 0.1
    assert difference.same < 100
    entry = difference.changed[0]
    assert set(entry.added) & set(entry.gone) == set()


def test_over_http(served, tmp_path):
    registry = ModelRegistry(tmp_path / "models")
    registry.promote(registry.add(served), "a test")
    CATALOGUE.save(tmp_path)
    (tmp_path / "pipeline.toml").write_text('[serving]\nexclude_items = ["item 1"]\n')
    recommender = Recommender.open(tmp_path)
    odd = recommender.choose(ItemFilter(group="Odd"))
    with running_service(tmp_path) as service:
        status, answer = service.get("/recommend/user%200?n=4&group=Odd")
        assert status == 200
        assert [line["item"] for line in answer["items"]] == items_of(
            recommender.recommend("user 0", 4, among=odd)
        )
        assert "item 1" not in {line["item"] for line in answer["items"]}
        assert answer["items"][0]["name"] == NAME
        status, answer = service.post("/recommend", {"user": "user 0", "items": ["item 5"], "n": 4})
        expected = recommender.recommend("user 0", 4, events=["item 5"])
        assert (status, answer) == (200, expected.model_dump(mode="json"))
        question = {"users": ["user 0", "nobody"], "n": 2, "only": ["item 3", "item 5"]}
        status, answer = service.post("/recommend", {**question, "not": ["item 5"]})
        assert [entry["user"] for entry in answer["lists"]] == question["users"]
        assert [[line["item"] for line in e["items"]] for e in answer["lists"]][1] == ["item 3"]
        assert service.get("/recommend/user%200?group=None")[0] == 404
        assert service.post("/recommend", {"users": ["a"], "items": ["b"]})[0] == 422
        assert service.post("/recommend", {"users": ["a"] * 101})[0] == 422
        assert service.post("/recommend", {"n": 3})[0] == 422
