"""Answers of one model in Python."""

import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline import Recommender
from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.ranking.explain import COMPONENT, ITEM, POPULAR
from mom_pipeline.core.ranking.lists import reasoned_lists
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.ranking.topn import brute_force
from mom_pipeline.serving.answers import Contribution, InvalidQuestion, UnknownItem, UnknownUser
from mom_pipeline.serving.recommender import MAX_HISTORY, MAX_LIST
from mom_pipeline.serving.registry import ModelRegistry, NoChampion
from mom_pipeline.serving.served_model import MODEL, Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

N, D, K = 250, 60, 3
ODD = ['say "it"', "two\nlines", '=HYPERLINK("http://x")', "a/b/../c", "ünïcode 🙂", " ", "%2F"]


@pytest.fixture(scope="module", params=["components", "three-moment", "all parts"])
def served(request):
    _, X = simulate(N, D, K, items_per_user=8, seed=1)
    ranking = "components" if request.param == "components" else "three-moment"
    weights = None
    if request.param == "all parts":
        weights = RankingWeights(popularity=0.1, ease=0.4, low_pass=0.5, components=1.5)
    how = {"personalization": "em", "ranking": ranking, "ranking_weights": weights}
    model = MethodOfMoments(K, **how).fit(X).fitted
    items = np.array([*ODD, *(f"item {y}" for y in range(len(ODD), D))], dtype=object)
    users = np.array([*ODD, *(f"user {u}" for u in range(len(ODD), N)), "nothing yet"], object)
    rows = sparse.csr_array(sparse.vstack([X, sparse.csr_array((1, D))]))
    manifest = Manifest("", "2024-03-01", "1", "rows", asdict(ModelSettings()), {}, {})
    return ServedModel(manifest, model, items, users, rows)


@pytest.fixture(scope="module")
def recommender(served):
    return Recommender(served)


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_equal_those_of_core(served, recommender, exclude_seen):
    model = served.model
    scorer = model.scores
    ids, scores = brute_force(served.histories[:30], scorer, 15, exclude_seen=exclude_seen)
    for user in range(30):
        name = served.user_ids[user]
        answer = recommender.recommend(name, 15, exclude_seen=exclude_seen)
        assert (answer.user, answer.fallback, answer.note) == (name, False, "")
        kept = ids[user] >= 0
        assert [line.item for line in answer.items] == list(served.item_ids[ids[user][kept]])
        ours = [line.score for line in answer.items]
        np.testing.assert_allclose(ours, scores[user][kept], rtol=1e-5)


def test_memberships_are_computed_where_a_part_reads_them(served, monkeypatch):
    asked = []
    own = FittedModel.memberships
    monkeypatch.setattr(FittedModel, "memberships", lambda s, X: asked.append(X) or own(s, X))
    Recommender(served).recommend("user 20", 3)
    ranking = served.model.pair_ranking
    reads = ranking is None or ranking.weights.components > 0
    assert len(asked) == int(reads)


def test_the_items_of_many_users_are_those_of_each(served, recommender):
    users = [*map(str, served.user_ids[:40]), "nothing yet", "nobody"]
    together = recommender.best_items(users, 7)
    assert list(together) == users[:40]
    for user in users[:40]:
        assert together[user] == [line.item for line in recommender.recommend(user, 7).items]


def test_lists_are_never_padded(served, recommender):
    seen = set(served.item_ids[served.histories[[0]].indices])
    answer = recommender.recommend(ODD[0], MAX_LIST)
    # Items that nobody took, or that no component of the user brings, are no candidates.
    model, candidates = served.model, served.model.popularity > 0
    if model.pair_ranking is None:
        candidates &= model.scores(served.histories[[0]])[0] > 0
    assert {line.item for line in answer.items} == set(served.item_ids[candidates]) - seen
    assert not seen & {line.item for line in answer.items}
    every = recommender.recommend(ODD[0], MAX_LIST, exclude_seen=False)
    assert len(every.items) == candidates.sum() > 30


def test_someone_new_gets_the_list_of_the_same_history(served, recommender):
    for user in range(10):
        row = served.histories[[user]]
        items = [str(served.item_ids[y]) for y in np.repeat(row.indices, row.data.astype(int))]
        new = recommender.recommend_items(items, 10)
        known = recommender.recommend(str(served.user_ids[user]), 10)
        assert new.user is None
        assert new.items == known.items


@pytest.mark.parametrize("user", ["nobody", "nothing yet"])
def test_without_a_history_popular_items_are_marked(served, recommender, user):
    answer = recommender.recommend(user, 5)
    best = np.argsort(-served.model.popularity, kind="stable")[:5]
    assert answer.fallback
    assert user in answer.note
    assert [line.item for line in answer.items] == list(served.item_ids[best])
    assert {line.reason.kind for line in answer.items} == {"popularity"}


def test_unknown_items_are_named(recommender):
    answer = recommender.recommend_items([ODD[1], "never seen", "never seen"], 5)
    assert (answer.fallback, answer.unknown_items) == (False, ("never seen",))
    answer = recommender.recommend_items(["never seen"], 5)
    assert answer.fallback
    assert len(answer.items) == 5


def test_explanations_sum_to_the_score(served, recommender):
    for user in (*ODD, "user 20"):
        for line in recommender.recommend(user, 10).items:
            why = recommender.explain(user, line.item)
            assert why.score == pytest.approx(line.score, rel=1e-5)
            moments = {m.name: m.contribution for m in why.moments}
            assert sum(moments.values()) == pytest.approx(why.score, rel=1e-5)
            assert sum(m.share for m in why.moments) == pytest.approx(1, rel=1e-5)
            components = sum(c.contribution for c in why.components)
            assert components == pytest.approx(moments.get("components", 0), rel=1e-4, abs=1e-9)
            history = sum(c.contribution for c in why.history)
            whole = why.score - moments.get("popularity", 0.0)
            assert history == pytest.approx(whole, rel=1e-4, abs=1e-6)
            assert not why.seen


def test_the_table_of_lists_gives_the_same_reasons(served, recommender):
    model, X = served.model, served.histories
    lists = reasoned_lists(X, model.memberships(X), model, 10)
    for user in range(len(ODD), 60):
        name = str(served.user_ids[user])
        answer = recommender.recommend(name, 10)
        for place, line in enumerate(answer.items):
            assert line.item == served.item_ids[lists.items[user, place]]
            kind, cause = lists.kinds[user, place], lists.causes[user, place]
            expected = {
                ITEM: ("item", served.item_ids[cause]),
                COMPONENT: ("component", str(cause + 1)),
                POPULAR: ("popularity", ""),
            }[kind]
            assert (line.reason.kind, line.reason.name) == expected
            why = recommender.explain(name, line.item).reason
            assert (why.kind, why.name) == expected
            assert why.share == pytest.approx(line.reason.share, rel=1e-4)


def test_the_reason_is_the_largest_term(served, recommender):
    kinds = set()
    for user in served.user_ids[:40]:
        answer = recommender.recommend(str(user), 5)
        for line in answer.items:
            kinds.add(line.reason.kind)
            if line.reason.kind == "item":
                own = served.histories[[served.user_positions[str(user)]]].indices
                assert line.reason.name in set(served.item_ids[own])
            elif line.reason.kind == "component":
                first = recommender.explain(str(user), line.item).components[0]
                assert line.reason.name == first.name
                assert 1 <= int(line.reason.name) <= len(served.model.weights)
                assert line.reason.share == pytest.approx(first.share, rel=1e-4)
                assert len(line.reason.examples) == 3
    if served.model.pair_ranking is None:
        assert kinds == {"component"}
    elif not served.model.pair_ranking.weights.components:
        assert kinds == {"item"}


def test_similar_items_leave_out_the_item_itself(recommender):
    lengths = set()
    for item in ODD:
        answer = recommender.similar(item, 8)
        scores = [line.score for line in answer.items]
        lengths.add(len(scores))
        assert scores == sorted(scores, reverse=True)
        assert item not in {line.item for line in answer.items}
    # An item that nobody took goes with nothing.
    assert max(lengths) == 8
    assert lengths <= {0, 8}


def test_bad_questions_say_what_is_wrong(recommender):
    with pytest.raises(UnknownItem, match="'nothing'"):
        recommender.similar("nothing")
    with pytest.raises(UnknownItem, match="'nothing'"):
        recommender.explain("user 20", "nothing")
    for user in ("nobody", "nothing yet"):
        with pytest.raises(UnknownUser, match=user):
            recommender.explain(user, ODD[0])
    for n in (0, -1, MAX_LIST + 1):
        with pytest.raises(InvalidQuestion, match="between 1 and"):
            recommender.recommend("user 20", n)
    for items in ([], "item 9", ["item 9"] * (MAX_HISTORY + 1)):
        with pytest.raises(InvalidQuestion, match="list of 1 to"):
            recommender.recommend_items(items)


def test_the_promoted_model_is_loaded(served, tmp_path):
    with pytest.raises(NoChampion):
        Recommender.open(tmp_path)
    registry = ModelRegistry(tmp_path / "models")
    version = registry.add(served)
    registry.promote(version, "a test")
    answer = Recommender.open(tmp_path).recommend("user 20", 3)
    assert answer.model == version
    assert answer.items == Recommender(served).recommend("user 20", 3).items
    path = registry.folder(version) / MODEL
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedModel, match=r"differs from its manifest.*rollback"):
        Recommender.open(tmp_path)


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
