import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.linear_algebra.eigenpairs import is_direct, top_eigenpairs
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.second_moment import SecondMoment
from mom_pipeline.core.moments.sums import MomentSums, column_sums, users_per_item
from mom_pipeline.core.moments.users import UsersInMemory


def operator(X, estimator):
    sums = MomentSums.from_rows(X, estimator)
    return SecondMoment.from_users(UsersInMemory(X), sums, estimator)


def test_blocks_of_entries_change_no_digit(counts, monkeypatch):
    X = counts.astype(np.float64)
    X.data = X.data / 3
    expected = np.bincount(X.indices, weights=X.data, minlength=X.shape[1])
    users = np.count_nonzero(X.toarray(), axis=0)
    for size in (7, X.nnz):
        monkeypatch.setattr("mom_pipeline.core.moments.sums._ENTRIES_PER_BLOCK", size)
        np.testing.assert_array_equal(column_sums(X), expected)
        np.testing.assert_array_equal(users_per_item(X), users)


def test_what_an_estimator_cannot_read_is_refused():
    with pytest.raises(InvalidInteractions, match="2 events"):
        operator(sparse.csr_array(np.eye(3)), Estimator.from_name("unbiased"))
    X = sparse.csr_array(np.array([[1.0, 2.0, 0.5], [1.0, 1.0, 1.0]]))
    with pytest.raises(InvalidInteractions, match="needs whole counts; found 1 fractional"):
        MomentSums.from_rows(X, Estimator.from_name("unbiased"))
    assert MomentSums.from_rows(X, Estimator.from_name("balanced")).n_users == 2


def test_a_second_moment_too_large_for_memory_is_not_written_out(counts, rng, monkeypatch):
    M2, whole = operator(counts, Estimator.from_name("balanced")), 8 * counts.shape[1] ** 2
    found = {}
    for allowed in (whole - 1, whole):
        monkeypatch.setattr("mom_pipeline.core.linear_algebra.eigenpairs._DENSE_BYTES", allowed)
        found[allowed] = top_eigenpairs(M2, 2, rng).values[:2]
        assert is_direct(M2, 2, passes=10) == ("explicit" in M2.__dict__) == (allowed == whole)
    np.testing.assert_allclose(found[whole], found[whole - 1], rtol=1e-4)
