import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.evaluation.metrics import evaluate_ranking
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.ranking.candidates import Candidates, Parts
from mom_pipeline.core.ranking.choose import HeldOut, choose_weights, given_split, hold_out
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.pair_scores import ExplainedPairs, PairScores, as_binary
from mom_pipeline.core.ranking.score import RankingWeights, ThreeMomentRanking, best_unseen
from mom_pipeline.core.ranking.topn import recommend_top


@pytest.fixture
def X(rng):
    return as_interactions(rng.poisson(0.3, size=(80, 25)).astype(float))


@pytest.fixture
def low_pass(X, rng):
    scale = np.maximum((X > 0).sum(axis=0), 1) ** -0.5
    return LowPass(np.linalg.qr(rng.standard_normal((25, 6)))[0], scale, np.arange(6.0, 0.0, -1))


def test_parts_are_scaled_by_the_best_unseen_item_and_added(X, low_pass):
    weights = RankingWeights(popularity=0.3, pairs=0.7, explained=0.4, low_pass=0.5, classes=0.9)
    pairs, explained = PairScores.of(X, 0.5, 2.0), ExplainedPairs.of(X, 1.0)

    def classes(rows):
        return rows @ np.ones((25, 1)) * np.arange(1.0, 26) + 1

    found = ThreeMomentRanking(weights, pairs, explained, low_pass, classes)(X)
    once = as_binary(X)
    seen = X.toarray() > 0
    expected = np.zeros(X.shape)
    for weight, part in [
        (0.3, np.tile((X > 0).sum(axis=0), (80, 1)).astype(float)),
        (0.7, pairs.scores(once, weights.history_exponent, weights.candidate_exponent)),
        (0.4, explained.scores(once)),
        (0.5, low_pass.scores(once, weights.low_pass_ridge)),
        (0.9, classes(X)),
    ]:
        best = np.where(seen, -np.inf, part).max(axis=1, keepdims=True)
        expected += weight * part / np.where(best > 0, best, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_candidates_are_ranked_as_the_ranking_ranks_them(X, low_pass, exclude_seen):
    """What the search measures is what a model with those weights would reach."""
    split = hold_out(X, np.random.default_rng(0))
    rows = split.train[split.users]
    parts = Parts(
        pairs=(PairScores.of(split.train),),
        history_exponents=(0.5,),
        explained={5.0: ExplainedPairs.of(split.train, 5.0)},
        low_pass={1.0: low_pass},
        low_pass_ridges=(10.0,),
        classes=lambda rows: rows @ np.ones((25, 1)) * np.arange(1.0, 26) + 1,
    )
    weights = RankingWeights(
        popularity=0.2, explained=0.7, low_pass=0.6, classes=0.3, low_pass_ridge=10.0
    )
    scorer = ThreeMomentRanking(
        weights, parts.pairs[0], parts.explained[5.0], low_pass, parts.classes
    )
    ids, _ = recommend_top(rows, scorer, 20, exclude_seen=exclude_seen)
    values = evaluate_ranking(ids, split.test, [20]).per_user
    expected = (values["recall"] + values["ndcg"] + values["map"])[:, 0] / 3
    asked = Candidates.of(rows, split.test, parts, exclude_seen=exclude_seen)
    found = asked.quality(weights)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_user_who_has_everything_stays_finite():
    X = as_interactions(np.ones((2, 4)))
    np.testing.assert_array_equal(best_unseen(np.ones((2, 4)), X), [1, 1])


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


def test_nothing_can_be_hidden_of_single_items():
    assert hold_out(as_interactions(np.eye(4)), np.random.default_rng(0)) is None


def test_the_search_turns_to_the_part_that_knows_the_answer(X, low_pass):
    split = hold_out(X, np.random.default_rng(0))
    hidden = np.zeros(X.shape)
    hidden[split.users] = split.test.toarray()
    answers = {row.tobytes(): hidden[u] for u, row in enumerate(split.train.toarray())}

    def oracle(rows):
        return np.array([answers[row.tobytes()] for row in rows.toarray()]) + 1e-3

    knowing = choose_weights(split, {1.0: low_pass}, oracle)
    ignorant = choose_weights(split, {1.0: low_pass}, lambda rows: np.ones(rows.shape))
    assert knowing.weights.classes >= 0.5
    assert knowing.quality > ignorant.quality + 0.2
    assert ignorant.weights.classes == 0.0
    assert knowing.n_users == len(split.users)


@pytest.mark.parametrize("wrong", [{"pairs": -1.0}, {"low_pass": np.nan}, {"classes": np.inf}])
def test_weights_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidSetting, match="zero or more"):
        RankingWeights(**wrong)


def test_the_search_takes_the_inverse_where_only_it_explains(rng):
    """Thirty items that always come together are one piece of evidence, not thirty.

    Each user has one of 5 such bundles, which brings its target in 4 of 10 cases, and one of
    8 single items, which brings another target in 6 of 10: that one is to be found.
    """
    N, D = 600, 5 * 30 + 8 + 5 + 8
    bundle, single = rng.integers(0, 5, size=N), rng.integers(0, 8, size=N)
    dense, found = np.zeros((N, D)), np.zeros((N, D))
    for u in range(N):
        dense[u, bundle[u] * 30 : bundle[u] * 30 + 30] = 1
        dense[u, 150 + single[u]] = 1
        dense[u, 158 + bundle[u]] = u >= 200 and rng.random() < 0.4
        brought = rng.random() < 0.6
        dense[u, 163 + single[u]] = u >= 200 and brought
        found[u, 163 + single[u]] = u < 200
    asked = np.arange(200)
    split = HeldOut(as_interactions(dense), asked, as_interactions(found[asked]))
    ignorant = LowPass(np.zeros((D, 1)), np.ones(D), np.ones(1))
    choice = choose_weights(
        split, dict.fromkeys((0.5, 1.0), ignorant), lambda rows: np.ones(rows.shape)
    )
    assert choice.weights.explained > choice.weights.pairs
    assert choice.quality > 0.9


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


def test_a_history_is_a_set_for_pairs_and_counts_for_classes(X, low_pass):
    once, thrice = (as_interactions(sparse.csr_array(X[[0]] * times)) for times in (1, 3))
    seen = []

    def classes(rows):
        seen.append(rows.toarray())
        return np.ones(rows.shape)

    weights = RankingWeights(explained=0.5, classes=0.1)
    ranking = ThreeMomentRanking(
        weights, PairScores.of(X), ExplainedPairs.of(X, 1.0), low_pass, classes
    )
    np.testing.assert_array_equal(ranking(as_interactions(X[[0]])), ranking(thrice))
    np.testing.assert_array_equal(seen[1], 3 * once.toarray())


def test_a_users_weight_is_chosen_on_later_days_alone(X):
    later = as_interactions(np.roll(X.toarray(), 1, axis=0))
    rng = np.random.default_rng(0)
    assert given_split(X, later, rng).user_exponents == (0.5, 1.0)
    hidden = hold_out(X, rng)
    assert hidden.user_exponents == (RankingWeights().user_exponent,)
    assert hidden.clear_gain > given_split(X, later, rng).clear_gain
