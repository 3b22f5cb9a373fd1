import ir_measures
import numpy as np
import pytest
from ir_measures import AP, P, R, nDCG
from scipy import sparse

from mom_pipeline.core import evaluate_ranking
from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.evaluation import metrics
from mom_pipeline.core.evaluation.metrics import catalogue_use, nearest_cutoff, paired_interval

# Items 0 to 3 were taken by 4, 2, 1 and 0 of four users.
TRAIN = sparse.csr_array(np.array([[1, 1, 2, 0], [1, 1, 0, 0], [3, 0, 0, 0], [1, 0, 0, 0.0]]))


def test_agrees_with_ir_measures(rng):
    test = sparse.csr_array((rng.random((300, 60)) < 0.06).astype(float))
    ids = np.argsort(rng.random((300, 60)), axis=1)[:, :20]
    users = np.flatnonzero(np.diff(test.indptr))
    qrels = [
        ir_measures.Qrel(str(u), str(i), 1)
        for u in users
        for i in test.indices[test.indptr[u] : test.indptr[u + 1]]
    ]
    run = [ir_measures.ScoredDoc(str(u), str(i), -r) for u in users for r, i in enumerate(ids[u])]
    oracle = ir_measures.calc_aggregate([P @ 5, R @ 20, nDCG @ 10, nDCG @ 20], qrels, run)
    found = evaluate_ranking(ids, test, [5, 10, 20])
    ours = found.precision[5], found.recall[20], found.ndcg[10], found.ndcg[20]
    theirs = [oracle[measure] for measure in (P @ 5, R @ 20, nDCG @ 10, nDCG @ 20)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    # ir_measures divides AP by |T|, the paper's protocol by min(k, |T|).
    n_relevant = np.diff(test.indptr)[users]
    per_user = {m.query_id: m.value for m in ir_measures.iter_calc([AP @ 5], qrels, run)}
    ap = np.array([per_user[str(u)] for u in users]) * n_relevant / np.minimum(n_relevant, 5)
    np.testing.assert_allclose(found.per_user["map"][:, 0], ap, rtol=1e-9)


def test_a_list_shorter_than_the_cutoff_counts_as_a_miss():
    test = sparse.csr_array(np.repeat([[1.0], [0.0]], 8, axis=1))
    found = evaluate_ranking(np.array([[0, 1], [0, 1]]), test, [4])
    assert (found.precision[4], found.recall[4], found.n_dropped) == (0.5, 0.25, 1)


def test_bad_input_is_refused():
    test, lists = sparse.csr_array(np.ones((2, 3))), np.zeros((2, 2), dtype=int)
    with pytest.raises(InvalidInteractions):
        evaluate_ranking(lists[:1], test, [5])
    with pytest.raises(InvalidSetting):
        evaluate_ranking(lists, test, [0, 5])
    with pytest.raises(InvalidInteractions, match="none of the"):
        evaluate_ranking(lists, sparse.csr_array((2, 3)), [5])


def test_the_cutoff_that_is_shown_is_the_nearest_to_20():
    assert [nearest_cutoff(own) for own in ((5, 10, 20, 40), (5, 100), (10, 30))] == [20, 5, 10]


def test_coverage_and_novelty_are_those_of_a_plain_loop(rng):
    train = sparse.csr_array((rng.random((50, 80)) < 0.1).astype(float))
    ids = rng.permuted(np.tile(np.arange(-1, 80), (1500, 1)), axis=1)[:, :9]
    found = catalogue_use(ids, train, [2, 4, 9])
    n_users = (train.sum(axis=1) > 0).sum()
    takers = np.maximum((train.toarray() > 0).sum(axis=0), 1)
    for k in (2, 4, 9):
        shown = [y for row in ids[:, :k] for y in row if y >= 0]
        assert found.coverage[k] == len(set(shown)) / 80
        expected = np.mean([-np.log2(takers[y] / n_users) for y in shown])
        assert found.novelty[k] == pytest.approx(expected, rel=1e-12)


def test_lists_of_nothing_cover_nothing():
    for nothing in (np.array([[-1, -1]]), np.empty((3, 0), dtype=int)):
        assert catalogue_use(nothing, TRAIN, [1, 2]) == ({1: 0, 2: 0}, {1: 0, 2: 0})


def generator(seed=5):
    return np.random.default_rng(seed)


def test_an_interval_covers_the_truth_as_often_as_it_says():
    """Each column is a data set of its own: 600 of them, skewed as hits are, mean 0.2."""
    draws = np.random.default_rng(1)
    values = (draws.random((150, 600)) < 0.2).astype(float)
    for level, least, most in ((0.95, 0.92, 0.97), (0.5, 0.42, 0.58)):
        _, low, high = paired_interval(values, np.zeros_like(values), generator(), level=level)
        assert least < ((low <= 0.2) & (high >= 0.2)).mean() < most


def test_equal_generators_give_equal_intervals_in_any_blocks_and_shape(rng, monkeypatch):
    values, reference = rng.random((40, 2, 3)), rng.random((40, 2, 3))
    once = paired_interval(values, reference, generator())
    again = paired_interval(values, reference, generator())
    np.testing.assert_array_equal(once, again)
    assert once[0].shape == (2, 3)
    alone = paired_interval(values[:, 1, 2], reference[:, 1, 2], generator())
    np.testing.assert_allclose([end[1, 2] for end in once], alone, rtol=1e-12)
    monkeypatch.setattr(metrics, "_COUNTS_PER_BLOCK", 400)
    many_blocks = paired_interval(values, reference, generator())
    np.testing.assert_allclose(many_blocks, once, atol=0.05)
    np.testing.assert_array_equal(many_blocks, paired_interval(values, reference, generator()))


def test_figures_of_other_users_are_refused():
    one = np.ones((4, 2))
    for ours, theirs in ((one, one[:3]), (one[:0], one[:0])):
        with pytest.raises(InvalidInteractions):
            paired_interval(ours, theirs, generator())
