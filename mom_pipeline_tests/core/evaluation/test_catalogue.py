import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.evaluation.catalogue import catalogue_use

# Items 0 to 3 were taken by 4, 2, 1 and 0 of four users.
TRAIN = sparse.csr_array(np.array([[1, 1, 2, 0], [1, 1, 0, 0], [3, 0, 0, 0], [1, 0, 0, 0.0]]))


def test_agrees_with_a_plain_loop(rng):
    train = sparse.csr_array((rng.random((50, 80)) < 0.1).astype(float))
    ids = rng.permuted(np.tile(np.arange(-1, 80), (1500, 1)), axis=1)[:, :9]
    found = catalogue_use(ids, train, [2, 4, 9])
    n_users = (train.sum(axis=1) > 0).sum()
    takers = np.maximum((train.toarray() > 0).sum(axis=0), 1)
    for k in found.cutoffs:
        shown = [y for row in ids[:, :k] for y in row if y >= 0]
        assert found.coverage[k] == len(set(shown)) / 80
        expected = np.mean([-np.log2(takers[y] / n_users) for y in shown])
        assert found.novelty[k] == pytest.approx(expected, rel=1e-12)


def test_bad_input_is_refused():
    with pytest.raises(InvalidInteractions, match="from 0 to 3"):
        catalogue_use(np.array([[4]]), TRAIN, [1])
    with pytest.raises(InvalidInteractions, match="no list holds any item"):
        catalogue_use(np.array([[-1, -1]]), TRAIN, [1, 2])
    with pytest.raises(InvalidInteractions, match="no list holds any item"):
        catalogue_use(np.empty((3, 0), dtype=int), TRAIN, [1])
