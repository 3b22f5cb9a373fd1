"""Answers of one model in Python: lists, lists among some items, names, and explanations."""

import subprocess
import sys
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline import Recommender
from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.ranking.explain import (
    COMPONENT,
    ITEM,
    OWN,
    POPULAR,
    POPULARITY,
    RISING,
    TREND,
)
from mom_pipeline.core.ranking.lists import reasoned_lists
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.serving.answers import (
    Contribution,
    InvalidQuestion,
    UnknownGroup,
    UnknownItem,
    UnknownUser,
)
from mom_pipeline.serving.diff import compare_versions
from mom_pipeline.serving.recommender import MAX_HISTORY, MAX_LIST
from mom_pipeline.serving.rules import Rules
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings
from mom_pipeline_tests.core.ranking.brute_force import brute_force

from .conftest import ODD

N, D, K = 250, 60, 3
NAME = '<b>"x"</b>'
ITEMS = [*ODD, *(f"item {y}" for y in range(len(ODD), D))]
CATALOGUE = Catalogue(
    {item: Item(item, NAME, "Odd|All" if y % 2 else "All") for y, item in enumerate(ITEMS)}
)


@pytest.fixture(scope="module", params=["components", "without days", "with days"])
def served(request):
    _, X = simulate(N, D, K, items_per_user=8, seed=1)
    days = X.copy()
    days.data = np.random.default_rng(0).integers(700_000, 700_030, X.nnz).astype(float)
    ranking = "components" if request.param == "components" else "three-moment"
    model = MethodOfMoments(K, personalization="em", ranking=ranking)
    fitted = model.fit(X, last_days=days if request.param == "with days" else None).fitted
    users = [*ODD, *(f"user {u}" for u in range(len(ODD), N)), "nothing yet"]
    rows, days = (
        sparse.csr_array(sparse.vstack([own, sparse.csr_array((1, D))])) for own in (X, days)
    )
    manifest = Manifest("", "2024-03-01", "1", "rows", asdict(ModelSettings()), {}, {})
    ids = np.array(ITEMS, object), np.array(users, object)
    return ServedModel(manifest, fitted, *ids, rows, days)


@pytest.fixture(scope="module")
def recommender(served):
    return Recommender(served, Rules(catalogue=CATALOGUE))


def items_of(answer):
    return [line.item for line in answer.items]


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_equal_those_of_core(served, recommender, exclude_seen):
    how = {"exclude_seen": exclude_seen, "last_days": served.last_days[:30]}
    scorer = partial(served.model.scores, **how)
    ids, scores = brute_force(served.histories[:30], scorer, 15, exclude_seen=exclude_seen)
    for user in range(30):
        name = served.user_ids[user]
        answer = recommender.recommend(name, 15, exclude_seen=exclude_seen)
        assert (answer.user, answer.fallback, answer.note) == (name, False, "")
        kept = ids[user] >= 0
        assert items_of(answer) == list(served.item_ids[ids[user][kept]])
        ours = [line.score for line in answer.items]
        np.testing.assert_allclose(ours, scores[user][kept], rtol=1e-5)


def test_the_items_of_many_users_are_those_of_each(served, recommender):
    users = [*map(str, served.user_ids[:40]), "nothing yet", "nobody"]
    together = recommender.best_items(users, 7)
    assert list(together) == users[:40]
    for user in users[:40]:
        assert together[user] == items_of(recommender.recommend(user, 7))


def test_lists_are_never_padded(served, recommender):
    seen = set(served.item_ids[served.histories[[0]].indices])
    answer = recommender.recommend(ODD[0], MAX_LIST)
    # Items that nobody took, or that no component of the user brings, are no candidates.
    model, candidates = served.model, served.model.popularity > 0
    if model.pair_ranking is None:
        candidates &= model.scores(served.histories[[0]])[0] > 0
    assert set(items_of(answer)) == set(served.item_ids[candidates]) - seen
    every = recommender.recommend(ODD[0], MAX_LIST, exclude_seen=False)
    assert len(every.items) == candidates.sum() > 30


def all_of_today(served):
    """The same people, as if everything had been taken on the model's day."""
    ranking, days = served.model.pair_ranking, served.last_days.copy()
    if ranking is not None and ranking.days is not None:
        days.data[:] = ranking.days.newest
    return replace(served, last_days=days)


def test_someone_new_gets_the_list_of_the_same_history(served):
    served = all_of_today(served)
    recommender = Recommender(served)
    for user in range(10):
        row = served.histories[[user]]
        items = [str(served.item_ids[y]) for y in np.repeat(row.indices, row.data.astype(int))]
        new = recommender.recommend_items(items, 10)
        assert new.user is None
        assert new.items == recommender.recommend(str(served.user_ids[user]), 10).items


def test_fresh_events_count_like_those_of_the_history(served):
    """Half of a history in the model and half of it fresh are the whole history."""
    served = all_of_today(served)
    recommender = Recommender(served)
    row = served.histories[[20]]
    first = sorted(row.indices)[: row.nnz // 2]
    kept, days, fresh = served.histories.tolil(), served.last_days.tolil(), []
    for y in row.indices:
        if y not in first:
            fresh += [ITEMS[y]] * int(row[0, y])
            kept[20, y] = days[20, y] = 0
    halved = Recommender(replace(served, histories=kept.tocsr(), last_days=days.tocsr()))
    whole = items_of(recommender.recommend("user 20", 10))
    assert items_of(halved.recommend("user 20", 10)) != whole
    answer = halved.recommend("user 20", 10, events=[*fresh, "never seen"])
    assert items_of(answer) == whole
    assert answer.unknown_items == ("never seen",)


@pytest.mark.parametrize("user", ["nobody", "nothing yet"])
def test_without_a_history_popular_items_are_marked(served, recommender, user):
    answer = recommender.recommend(user, 5)
    best = np.argsort(-served.model.popularity, kind="stable")[:5]
    assert answer.fallback
    assert user in answer.note
    assert items_of(answer) == list(served.item_ids[best])
    assert {line.reason.kind for line in answer.items} == {"popularity"}


def test_unknown_items_are_named(recommender):
    answer = recommender.recommend_items([ODD[1], "never seen", "never seen"], 5)
    assert (answer.fallback, answer.unknown_items) == (False, ("never seen",))
    answer = recommender.recommend_items(["never seen"], 5)
    assert answer.fallback
    assert len(answer.items) == 5


@pytest.mark.parametrize(
    "choice",
    [
        {"only": ITEMS[3:30:3]},
        {"without": ITEMS[:40]},
        {"group": "Odd"},
        {"only": ITEMS[:20], "without": [ITEMS[3]], "group": "Odd"},
    ],
)
def test_a_list_among_some_items_is_the_whole_list_without_the_others(recommender, choice):
    among = recommender.choose(**choice)
    allowed = {ITEMS[y] for y in np.flatnonzero(among.allowed)}
    assert 0 < len(allowed) < D
    for user in (ODD[0], "user 12", "user 149", "nobody"):
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
    among = recommender.choose(only=["no such item"])
    for user in ("user 20", "nobody"):
        answer = recommender.recommend(user, 5, among=among)
        assert (answer.items, answer.unknown_items) == ((), ("no such item",))
        assert "the choice leaves 0 items" in answer.note


def test_what_is_left_out_is_in_no_list(served):
    left_out = CATALOGUE.left_out(["item 12"], ["Odd"])
    recommender = Recommender(served, Rules(catalogue=CATALOGUE, left_out=left_out))
    for user in ("user 20", "nobody"):
        listed = items_of(recommender.recommend(user, D))
        assert listed
        assert not left_out & set(listed)
    assert not left_out & set(items_of(recommender.similar("item 14", D)))


def test_names_are_in_the_answers(recommender):
    answer = recommender.recommend("user 20", 3)
    assert {line.name for line in answer.items} == {NAME}
    assert {line.name for line in recommender.similar("item 13", 3).items} == {NAME}
    labels = {term.label for term in recommender.explain("user 20", answer.items[0].item).history}
    assert labels <= {f"{NAME} ({item})" for item in ITEMS}


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_explanations_sum_to_the_score(served, exclude_seen):
    recommender = Recommender(served, Rules(exclude_seen=exclude_seen))
    for user in (*ODD[:3], "user 20"):
        for line in recommender.recommend(user, 10).items:
            why = recommender.explain(user, line.item)
            assert why.score == pytest.approx(line.score, rel=1e-5)
            moments = {m.name: m.contribution for m in why.moments}
            assert sum(moments.values()) == pytest.approx(why.score, rel=1e-5)
            if why.score > 0:
                assert sum(m.share for m in why.moments) == pytest.approx(1, rel=1e-5)
            components = sum(c.contribution for c in why.components)
            assert components == pytest.approx(moments.get("components", 0), rel=1e-4, abs=1e-9)
            history = sum(c.contribution for c in why.history)
            alone = sum(moments.get(name, 0.0) for name in (POPULARITY, TREND, OWN))
            assert history == pytest.approx(why.score - alone, rel=1e-4, abs=1e-5)
            assert not (exclude_seen and why.seen)


def test_an_item_that_was_had_is_explained_as_in_a_list_that_may_hold_it(served, recommender):
    own = set(served.item_ids[served.histories[[20]].indices])
    listed = recommender.recommend("user 20", D, exclude_seen=False).items
    for line in [line for line in listed if line.item in own]:
        why = recommender.explain("user 20", line.item)
        assert why.seen
        assert why.score == pytest.approx(line.score, rel=1e-5)
        assert why.reason.name == line.reason.name
        assert why.reason.share == pytest.approx(line.reason.share, rel=1e-4)


def test_reasons_are_the_largest_terms_and_those_of_the_table_of_lists(served, recommender):
    model, X, kinds = served.model, served.histories, set()
    lists = reasoned_lists(model, model.histories(X, last_days=served.last_days), 8)
    for user in range(len(ODD), len(ODD) + 15):
        name, own = str(served.user_ids[user]), set(served.item_ids[X[[user]].indices])
        for place, line in enumerate(recommender.recommend(name, 8).items):
            assert line.item == served.item_ids[lists.items[user, place]]
            kind, cause = lists.kinds[user, place], lists.causes[user, place]
            expected = {
                ITEM: ("item", served.item_ids[cause]),
                COMPONENT: ("component", str(cause + 1)),
                POPULAR: ("popularity", ""),
                RISING: ("trend", ""),
            }[kind]
            assert (line.reason.kind, line.reason.name) == expected
            why = recommender.explain(name, line.item)
            assert (why.reason.kind, why.reason.name) == expected
            assert why.reason.share == pytest.approx(line.reason.share, rel=1e-4)
            kinds.add(line.reason.kind)
            if kind == ITEM:
                assert line.reason.name in own
            elif kind == COMPONENT:
                assert line.reason.name == why.components[0].name
                assert line.reason.share == pytest.approx(why.components[0].share, rel=1e-4)
                assert len(line.reason.examples) == 3
    if model.pair_ranking is None:
        assert kinds == {"component"}
    else:
        assert "item" in kinds
        assert "component" not in kinds


def test_similar_items_leave_out_the_item_itself(recommender):
    lengths = set()
    for item in ODD[:7]:
        answer = recommender.similar(item, 8)
        scores = [line.score for line in answer.items]
        lengths.add(len(scores))
        assert scores == sorted(scores, reverse=True)
        assert item not in items_of(answer)
    # An item that nobody took goes with nothing.
    assert max(lengths) == 8
    assert lengths <= {0, 8}


def test_bad_questions_say_what_is_wrong(recommender):
    for question in (lambda: recommender.similar("x"), lambda: recommender.explain("user 20", "x")):
        with pytest.raises(UnknownItem, match="'x'"):
            question()
    for user in ("nobody", "nothing yet"):
        with pytest.raises(UnknownUser, match=user):
            recommender.explain(user, ODD[0])
    for n in (0, -1, MAX_LIST + 1):
        with pytest.raises(InvalidQuestion, match="between 1 and"):
            recommender.recommend("user 20", n)
    for items in ([], "item 19", ["item 19"] * (MAX_HISTORY + 1)):
        with pytest.raises(InvalidQuestion, match="list of 1 to"):
            recommender.recommend_items(items)
    with pytest.raises(UnknownGroup, match="'Od'; did you mean 'Odd'"):
        recommender.choose(group="Od")
    with pytest.raises(UnknownGroup, match="known groups: 'All', 'Odd'"):
        recommender.choose(group="x")


def test_versions_differ_in_what_was_changed(served):
    same = compare_versions(served, served, Rules())
    assert (same.settings, same.same, same.mean_kept) == ({}, N, 1.0)
    assert max(same.drift) == 0
    changed = {**served.manifest.settings, "n_components": 9}
    ranking = served.model.pair_ranking
    if ranking is not None:
        ranking = replace(ranking, weights=RankingWeights(users=(9.0, 0.0)))
    probs = served.model.item_probs[::-1].copy()
    other = replace(
        served,
        manifest=replace(served.manifest, version="b", settings=changed, metrics={"map": 0.5}),
        model=replace(served.model, item_probs=probs, pair_ranking=ranking),
        user_ids=served.user_ids[:100],
        histories=served.histories[:100],
        last_days=served.last_days[:100],
    )
    difference = compare_versions(served, other, Rules())
    assert difference.settings == {"n_components": (100, 9)}
    assert difference.metrics == {"map": (None, 0.5)}
    assert (difference.users, difference.compared) == ((N + 1, 100), 100)
    assert min(difference.drift) > 0.1
    assert difference.same < 100
    assert not set(difference.changed[0].added) & set(difference.changed[0].gone)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_answer_holds_a_number_that_json_cannot(value):
    with pytest.raises(ValueError, match="finite"):
        Contribution(name="pairs", contribution=value, share=0.0)


def test_importing_the_package_is_cheap():
    code = (
        "import sys, mom_pipeline\n"
        "assert 'numpy' not in sys.modules\n"
        "for name in ('dagster', 'duckdb', 'pandas', 'click', 'rich', 'fastapi', 'starlette'):\n"
        "    sys.modules[name] = None\n"
        "from mom_pipeline import Recommender\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
