"""Random matrices of any size to measure on."""

import numpy as np
from scipy import sparse

from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.types import Csr


def random_interactions(
    n_users: int,
    n_items: int,
    n_pairs: int,
    rng: np.random.Generator,
    *,
    zipf_exponent: float = 0.0,
) -> Csr:
    """Return a binary matrix of about n_pairs entries: users at random, items by Zipf's law.

    With the exponent 0 the items are uniformly random too.
    """
    popularity = np.cumsum(np.arange(1, n_items + 1, dtype=np.float64) ** -zipf_exponent)
    users = rng.integers(0, n_users, n_pairs)
    items = np.searchsorted(popularity, rng.random(n_pairs) * popularity[-1])
    X = as_interactions(
        sparse.csr_array((np.ones(n_pairs), (users, items)), shape=(n_users, n_items))
    )
    X.data[:] = 1.0
    return X
