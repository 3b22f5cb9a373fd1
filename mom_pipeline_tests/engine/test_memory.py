"""What a process holds while a cluster works on the rows of all users."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.interactions import changed_rows
from mom_pipeline.core.ranking.lists import ListsVisit, memberships_of
from mom_pipeline.engine.dask import DaskVisits
from mom_pipeline_tests.mapped import is_mapped

N, D, PER_USER = 60_000, 500, 25


def many_rows(folder):
    """Rows that stay in files, mapped into memory."""
    rng = np.random.default_rng(0)
    items = np.sort((rng.integers(0, D, (N, 1)) + np.arange(PER_USER) * 7) % D, axis=1)
    ends = np.arange(N + 1, dtype=np.int32) * PER_USER
    for name, array in {"data": np.ones(N * PER_USER), "items": items.astype(np.int32)}.items():
        np.save(folder / f"{name}.npy", array.ravel())
    data, indices = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("data", "items"))
    return sparse.csr_array((data, indices, ends), (N, D))


@pytest.mark.long
def test_a_small_part_of_the_rows_and_memberships(tmp_path, monkeypatch):
    """Shards are written, moments fitted, users compared and listed; rows stay in their files."""
    monkeypatch.setattr("mom_pipeline.engine.shards.PAIRS_PER_SHARD", 60_000)
    monkeypatch.setattr("mom_pipeline.core.interactions._PAIRS_PER_BLOCK", 60_000)
    P = np.lib.format.open_memmap(tmp_path / "P.npy", "w+", np.float64, (N, 40))
    with DaskVisits("", 2, str(tmp_path / "shards")) as visits:
        X = many_rows(tmp_path)
        assert is_mapped(X.data)
        visits.users("another", X[:10])  # what is loaded and started once
        tracemalloc.start()
        users = visits.users("a version", X)
        assert not len(changed_rows(X, X))
        model = MethodOfMoments(40, "paper", ranking="components", max_passes=2).fit_users(users)
        memberships_of(model.fitted, users, P)
        work = ListsVisit(model.fitted.answering(), 5)
        listed = sum(len(part.users) for part in users.visit(work, np.arange(N)))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert listed == N
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    rows, memberships = X.data.nbytes + X.indices.nbytes, P.nbytes
    assert peak < min(rows, memberships) / 1.5, f"{peak:,} of {rows:,} and {memberships:,} bytes"
