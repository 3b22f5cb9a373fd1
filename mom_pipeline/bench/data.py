"""Simulated interactions of an exact size, clustered as those of logs are."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.types import Array, Csr

_ZIPF_EXPONENT = 0.8
_ACTIVITY_SPREAD = 1.0
# Of a user's events: from the first taste, from the second, from the whole catalogue.
_SHARES = (0.65, 0.25, 0.10)
_NOBODYS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class ClusteredCatalogue:
    """Items of Zipf's popularity, each at home in a cluster of neighbours."""

    cumulative: Array  # (D + 1,) of the popularities
    edges: Array  # (clusters + 1,) where the clusters begin and end

    @classmethod
    def random(cls, n_items: int, n_clusters: int, rng: np.random.Generator) -> Self:
        """Spread the items, popular or not, over clusters of unlike sizes."""
        popularity = np.arange(1, n_items + 1, dtype=np.float64) ** -_ZIPF_EXPONENT
        rng.shuffle(popularity)
        sizes = rng.dirichlet(np.full(n_clusters, 5.0)) * (n_items - n_clusters)
        edges = np.rint(np.cumsum(sizes)).astype(np.int64) + np.arange(1, n_clusters + 1)
        return cls(np.append(0.0, np.cumsum(popularity)), np.append(0, edges))

    def draw(self, clusters: Array, rng: np.random.Generator) -> Array:
        """Draw an item by popularity from each of the clusters; -1 stands for all items."""
        anywhere = clusters < 0
        low = np.where(anywhere, 0.0, self.cumulative[self.edges[clusters]])
        high = np.where(anywhere, self.cumulative[-1], self.cumulative[self.edges[clusters + 1]])
        draws = low + rng.random(len(clusters)) * (high - low)
        items = np.searchsorted(self.cumulative, draws, side="right") - 1
        return np.minimum(items, len(self.cumulative) - 2)

    def interactions(
        self, n_users: int, n_pairs: int, rng: np.random.Generator, *, of_items: Array = _NOBODYS
    ) -> Csr:
        """Binary rows of exactly n_pairs entries: two tastes a user and the whole catalogue.

        of_items: items that somebody is to have. Every user has an item, some have very many, where
        there are pairs enough.
        """
        D = len(self.cumulative) - 1
        tastes = rng.integers(0, len(self.edges) - 1, (n_users, 2))
        activity = np.cumsum(rng.lognormal(sigma=_ACTIVITY_SPREAD, size=n_users))
        keys = np.unique(rng.integers(0, n_users, len(of_items)) * D + of_items)
        users = np.arange(n_users)
        while len(users):
            kind = rng.choice(3, size=len(users), p=_SHARES)
            clusters = np.where(kind == 2, -1, tastes[users, np.minimum(kind, 1)])
            drawn = np.unique(users * D + self.draw(clusters, rng))
            new = rng.permutation(drawn[~np.isin(drawn, keys, assume_unique=True)])
            keys = np.append(keys, new[: n_pairs - len(keys)])
            # More than are missing, as many are drawn twice.
            missing = 2 * (n_pairs - len(keys))
            users = np.searchsorted(activity, rng.random(missing) * activity[-1])
        keys.sort()
        ends = np.append(0, np.cumsum(np.bincount(keys // D, minlength=n_users)))
        entries = np.ones(len(keys), np.float32), (keys % D).astype(np.int32), ends.astype(np.int32)
        return sparse.csr_array(entries, shape=(n_users, D))


def clustered_interactions(
    n_users: int, n_items: int, n_pairs: int, rng: np.random.Generator, *, n_clusters: int = 100
) -> Csr:
    """Return a binary matrix of exactly this size, with every user and every item in it."""
    catalogue = ClusteredCatalogue.random(n_items, min(n_clusters, n_items), rng)
    return catalogue.interactions(n_users, n_pairs, rng, of_items=np.arange(n_items))
