from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.evaluation.metrics import evaluate_ranking
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.candidates import Candidates, SearchParts
from mom_pipeline.core.ranking.choose import choose_weights, given_split, hold_out
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.parts import Histories, Pairs, Popularity
from mom_pipeline.core.ranking.score import RankingWeights, Score, best_unseen, ranking_name
from mom_pipeline.core.ranking.topn import brute_force


@pytest.fixture
def X(rng):
    return as_interactions(rng.poisson(0.3, size=(80, 25)).astype(float))


@pytest.fixture
def low_pass(X, rng):
    scale = np.maximum((X > 0).sum(axis=0), 1) ** -0.5
    return LowPass(np.linalg.qr(rng.standard_normal((25, 6)))[0], scale, np.arange(6.0, 0.0, -1))


class Given:
    """Components that are given as a function of the rows."""

    name = "components"

    def __init__(self, scorer):
        self.scorer = scorer

    def scores(self, rows):
        return self.scorer(rows.X)


def rising(rows):
    return rows @ np.ones((25, 1)) * np.arange(1.0, 26) + 1


def test_parts_are_scaled_by_the_best_unseen_item_and_added(X, low_pass):
    pairs, ease = Pairs.from_rows(X, 0.5, 2.0), Ease.from_users(UsersInMemory(X), 1.0)
    popularity = Popularity(pairs.item_users)
    parts = ((popularity, 0.3), (pairs, 0.7), (ease, 0.4), (low_pass, 0.5), (Given(rising), 0.9))
    rows = Histories(X, None)
    scores, factors = Score(parts)(rows)
    seen = X.toarray() > 0
    expected = np.zeros(X.shape)
    for part, weight in parts:
        plain = part.scores(rows)
        best = np.where(seen, -np.inf, plain).max(axis=1)
        factor = weight / np.where(best > 0, best, 1.0)
        np.testing.assert_allclose(factors[part.name], factor, rtol=1e-6)
        expected += factor[:, None] * plain
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_components_alone_are_not_divided(rng):
    O, P = rng.dirichlet(np.ones(9), size=3).T, rng.dirichlet(np.ones(3), size=4)
    rows = Histories(sparse.csr_array((rng.random((4, 9)) < 0.3).astype(float)), lambda X: P)
    scores, factors = Score.from_probs(O)(rows)
    expected = [[sum(P[u, k] * O[y, k] for k in range(3)) for y in range(9)] for u in range(4)]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    np.testing.assert_array_equal(factors["components"], np.ones(4))


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_candidates_are_ranked_as_the_ranking_ranks_them(X, low_pass, exclude_seen):
    """What the search measures is what a model with those weights would reach."""
    split = hold_out(X, np.random.default_rng(0))
    rows = split.train[split.users]
    parts = SearchParts(
        pairs=(Pairs.from_rows(split.train),),
        history_exponents=(0.5,),
        ease={5.0: Ease.from_users(UsersInMemory(split.train), 5.0)},
        low_pass={1.0: low_pass},
        low_pass_ridges=(10.0,),
        components=rising,
    )
    weights = RankingWeights(
        popularity=0.2, ease=0.7, low_pass=0.6, components=0.3, low_pass_ridge=10.0
    )
    score = Score(
        (
            (Popularity(parts.pairs[0].item_users), 0.2),
            (parts.pairs[0], 1.0),
            (parts.ease[5.0], 0.7),
            (replace(low_pass, ridge=10.0), 0.6),
            (Given(rising), 0.3),
        )
    )
    ids, _ = brute_force(
        rows, lambda rows: score(Histories(rows, None))[0], 20, exclude_seen=exclude_seen
    )
    values = evaluate_ranking(ids, split.test, [20]).per_user
    expected = (values["recall"] + values["ndcg"] + values["map"])[:, 0] / 3
    candidates = Candidates.from_rows(rows, split.test, parts, exclude_seen=exclude_seen)
    np.testing.assert_allclose(candidates.quality(weights), expected, rtol=1e-6)


def test_an_unknown_ranking_is_refused():
    assert ranking_name("components") == "components"
    with pytest.raises(InvalidSetting, match="'components' or 'three-moment', found 'best'"):
        ranking_name("best")


def test_hold_out_hides_a_fifth_of_everybody(X):
    split = hold_out(X, np.random.default_rng(0), max_users=30)
    assert len(split.users) == 30
    hidden = np.diff(X.indptr) - np.diff(split.train.indptr)
    sizes = np.diff(X.indptr)
    np.testing.assert_array_equal(
        hidden, np.where(sizes >= 2, np.maximum(1, np.rint(sizes / 5)), 0)
    )
    together = split.train[split.users] + split.test
    np.testing.assert_array_equal(together.toarray(), X[split.users].toarray())
    assert split.train[split.users].multiply(split.test).nnz == 0


def test_the_search_turns_to_the_part_that_knows_the_answer(X, low_pass):
    split = hold_out(X, np.random.default_rng(0))
    hidden = np.zeros(X.shape)
    hidden[split.users] = split.test.toarray()
    answers = {row.tobytes(): hidden[u] for u, row in enumerate(split.train.toarray())}

    def oracle(rows):
        return np.array([answers[row.tobytes()] for row in rows.toarray()]) + 1e-3

    knowing = choose_weights(split, lambda e, scaling: low_pass, oracle)
    ignorant = choose_weights(split, lambda e, scaling: low_pass, lambda rows: np.ones(rows.shape))
    assert knowing.weights.components >= 0.5
    assert knowing.quality > ignorant.quality + 0.2
    assert ignorant.weights.components <= RankingWeights().components
    assert knowing.n_users == len(split.users)


@pytest.mark.parametrize("wrong", [{"pairs": -1.0}, {"low_pass": np.nan}, {"components": np.inf}])
def test_weights_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidSetting, match="zero or more"):
        RankingWeights(**wrong)


def test_what_a_user_had_before_is_not_to_be_found_again(X):
    later = as_interactions(np.roll(X.toarray(), 1, axis=0))
    split = given_split(X, later, np.random.default_rng(0))
    assert split.test.multiply(X[split.users]).nnz == 0
    with pytest.raises(InvalidInteractions, match="an item beyond it"):
        given_split(X, X, np.random.default_rng(0))


def test_what_a_user_had_before_is_to_be_found_where_lists_hold_it(X):
    split = given_split(X, X, np.random.default_rng(0), exclude_seen=False)
    np.testing.assert_array_equal(split.test.toarray(), X[split.users].toarray() > 0)
    assert not split.exclude_seen


def test_a_history_is_a_set_for_pairs_and_counts_for_components(X, low_pass):
    once, thrice = (as_interactions(sparse.csr_array(X[[0]] * times)) for times in (1, 3))
    seen = []

    def components(rows):
        seen.append(rows.toarray())
        return np.ones(rows.shape)

    parts = (
        (Pairs.from_rows(X), 1.0),
        (Ease.from_users(UsersInMemory(X), 1.0), 0.5),
        (low_pass, 0.5),
    )
    score = Score((*parts, (Given(components), 0.1)))
    scores = [score(Histories(rows, None))[0] for rows in (as_interactions(X[[0]]), thrice)]
    np.testing.assert_array_equal(*scores)
    np.testing.assert_array_equal(seen[1], 3 * once.toarray())


def test_hidden_items_must_promise_a_tenth_more_than_the_defaults(X, low_pass):
    """A part that knows the answers of some users: on later days any clear gain is taken."""
    hidden = hold_out(X, np.random.default_rng(0))
    later = replace(hidden, least_gain=0.0)
    assert hidden.least_gain == 0.1
    roll = as_interactions(np.roll(X.toarray(), 1, axis=0))
    assert given_split(X, roll, np.random.default_rng(0)).least_gain == 0.0
    rows, answers = hidden.train[hidden.users].toarray(), hidden.test.toarray()
    # Nothing to choose but whether to listen to the part that knows.
    fixed = {n: v for n, v in asdict(RankingWeights()).items() if n != "components"}

    def chosen(split, known):
        told = {row.tobytes(): own for row, own in zip(rows[:known], answers, strict=False)}
        nothing = np.zeros(X.shape[1])

        def oracle(asked):
            return np.array([told.get(row.tobytes(), nothing) for row in asked.toarray()]) + 1e-3

        return choose_weights(split, lambda e, scaling: low_pass, oracle, fixed=fixed)

    default = chosen(hidden, 0)
    assert default.weights == RankingWeights()
    little, much = chosen(later, 5), chosen(later, 80)
    assert default.quality < little.quality < 1.1 * default.quality < much.quality
    assert little.weights.components > 0
    assert chosen(hidden, 5).weights == RankingWeights()
    assert chosen(hidden, 80) == much


def test_the_rounding_of_a_seen_item_is_not_divided_by():
    scores = np.array([[1.0, 1e-9, 0.0], [1.0, 0.5, 0.0], [-1.0, 1e-9, 0.0]], dtype=np.float32)
    before, seen = scores.copy(), (np.array([0, 1, 2]), np.array([0, 0, 0]))
    np.testing.assert_allclose(best_unseen(scores, seen), [1.0, 0.5, 1e-9], rtol=1e-6)
    np.testing.assert_array_equal(scores, before)


def test_without_any_weight_the_most_popular_items_rank(X):
    none = {"popularity": 0.0, "pairs": 0.0, "ease": 0.0, "low_pass": 0.0, "components": 0.0}
    model = MethodOfMoments(3, ranking="three-moment", ranking_weights=RankingWeights(**none))
    items, _ = model.fit(X).recommend(X[:1], n=5, exclude_seen=False)
    users = np.asarray((X > 0).sum(axis=0))
    assert sorted(users[items[0]], reverse=True) == sorted(users, reverse=True)[:5]
