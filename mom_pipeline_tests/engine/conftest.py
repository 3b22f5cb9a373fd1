"""Small users in shards, and a real cluster over TCP on loopback."""

import numpy as np
import pytest

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.engine import write_shards
from mom_pipeline.engine.dask import dask_engine

N, D, K = 900, 700, 5


@pytest.fixture(scope="session")
def interactions():
    rng = np.random.default_rng(0)
    X = clustered_interactions(N, D, 9_000, rng, n_clusters=K)
    X.data[:] = rng.integers(1, 4, X.nnz)
    for user in (17, 400):
        X.data[X.indptr[user] : X.indptr[user + 1]] = 0  # users without a row
    return as_interactions(X)


@pytest.fixture(scope="session")
def shards(interactions, tmp_path_factory):
    return write_shards(interactions, str(tmp_path_factory.mktemp("shards")), n_shards=5)


@pytest.fixture(scope="module")
def cluster():
    with dask_engine(n_workers=2) as engine:
        yield engine
