import ir_measures
import numpy as np
import pytest
from ir_measures import AP, P, R, nDCG
from scipy import sparse

from mom_pipeline.core import evaluate_ranking
from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.evaluation.metrics import nearest_cutoff


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
    assert found.precision[5] == pytest.approx(oracle[P @ 5], rel=1e-9)
    assert found.recall[20] == pytest.approx(oracle[R @ 20], rel=1e-9)
    assert found.ndcg[10] == pytest.approx(oracle[nDCG @ 10], rel=1e-9)
    assert found.ndcg[20] == pytest.approx(oracle[nDCG @ 20], rel=1e-9)
    # ir_measures divides AP by |T|, the paper's protocol by min(k, |T|).
    n_relevant = np.diff(test.indptr)[users]
    per_user = {m.query_id: m.value for m in ir_measures.iter_calc([AP @ 5], qrels, run)}
    ap = np.array([per_user[str(u)] for u in users]) * n_relevant / np.minimum(n_relevant, 5)
    np.testing.assert_allclose(found.per_user["map"][:, 0], ap, rtol=1e-9)


def test_items_already_taken_in_training_are_not_to_be_found():
    train = sparse.csr_array(np.array([[1.0, 0, 0], [0, 1, 0]]))
    test = sparse.csr_array(np.array([[1.0, 1, 0], [0, 1, 0]]))
    found = evaluate_ranking(np.array([[1, 2], [0, 2]]), test, [2], train=train)
    assert found.recall[2] == 1.0
    assert found.n_dropped == 1


def test_a_list_shorter_than_the_cutoff_counts_as_a_miss():
    test = sparse.csr_array(np.ones((1, 8)))
    found = evaluate_ranking(np.array([[0, 1]]), test, [4])
    assert found.precision[4] == 0.5
    assert found.recall[4] == 0.25


def test_bad_input_is_refused():
    test = sparse.csr_array(np.ones((2, 3)))
    with pytest.raises(InvalidInteractions, match="one list per user"):
        evaluate_ranking(np.zeros((3, 2), dtype=int), test)
    with pytest.raises(InvalidSetting, match="at least 1"):
        evaluate_ranking(np.zeros((2, 2), dtype=int), test, [0, 5])
    with pytest.raises(InvalidInteractions, match="none of the 2 users"):
        evaluate_ranking(np.zeros((2, 2), dtype=int), sparse.csr_array((2, 3)), [5])


def test_the_cutoff_that_is_shown_is_the_nearest_to_20():
    assert nearest_cutoff((5, 10, 20, 40)) == 20
    assert nearest_cutoff((5, 100)) == 5
    assert nearest_cutoff((10, 30)) == 10
    assert nearest_cutoff((5, 40), wanted=50) == 40
