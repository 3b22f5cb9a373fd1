"""Simulated interactions of an exact size, clustered as those of logs are."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.types import Array, Csr

_ZIPF_EXPONENT = 0.8
_LENGTH_SPREAD = 1.0
# Of a user's events: from the first taste, from the second, from the whole catalogue.
_SHARES = (0.65, 0.25, 0.10)
# A taste that is used up is left after some rounds of redrawing.
_TASTE_ROUNDS, _ROUNDS = 5, 50
# A user keeps some of the items that others have too: nobody is to be alone with rare ones.
_SEVERAL = 3


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

    def interactions(self, n_users: int, n_pairs: int, rng: np.random.Generator) -> Csr:
        """Binary rows of exactly n_pairs entries: two tastes a user and the whole catalogue."""
        D = len(self.cumulative) - 1
        tastes = rng.integers(0, len(self.edges) - 1, (n_users, 2))
        missing = _lengths(n_users, n_pairs, D, rng)
        keys = np.empty(0, dtype=np.int64)
        for round_ in range(_ROUNDS):
            users = np.repeat(np.arange(n_users), missing)
            shares = _SHARES if round_ < _TASTE_ROUNDS else (0.0, 0.0, 1.0)
            kind = rng.choice(3, size=len(users), p=shares)
            clusters = np.where(kind == 2, -1, tastes[users, np.minimum(kind, 1)])
            drawn = np.unique(users * D + self.draw(clusters, rng))
            new = drawn[~np.isin(drawn, keys, assume_unique=True)]
            keys = np.concatenate([keys, new])
            missing -= np.bincount(new // D, minlength=n_users)
            if not missing.any():
                break
        else:
            raise ValueError(
                f"{n_users} users cannot take {n_pairs} different pairs of these items"
            )
        keys.sort()
        ends = np.append(0, np.cumsum(np.bincount(keys // D, minlength=n_users)))
        entries = np.ones(len(keys), np.float32), (keys % D).astype(np.int32), ends.astype(np.int32)
        return sparse.csr_array(entries, shape=(n_users, D))


def _lengths(n_users: int, n_pairs: int, n_items: int, rng: np.random.Generator) -> Array:
    """Return heavy-tailed numbers of items that sum to n_pairs; at least 2 where that suffices."""
    weights = rng.lognormal(sigma=_LENGTH_SPREAD, size=n_users)
    least = min(2, n_pairs // n_users)
    more = (n_pairs - least * n_users) / weights.sum()
    lengths = least + np.floor(weights * more).astype(np.int64)
    lengths = np.minimum(lengths, max(n_items // 4, 1))
    short = n_pairs - int(lengths.sum())
    return lengths + np.bincount(rng.integers(0, n_users, max(short, 0)), minlength=n_users)


def clustered_interactions(
    n_users: int, n_items: int, n_pairs: int, rng: np.random.Generator, *, n_clusters: int = 100
) -> Csr:
    """Return a binary matrix of exactly this size, with every user and every item in it."""
    catalogue = ClusteredCatalogue.random(n_items, min(n_clusters, n_items), rng)
    return _with_every_item(catalogue.interactions(n_users, n_pairs, rng), rng)


def _with_every_item(X: Csr, rng: np.random.Generator) -> Csr:
    """Give items that nobody took to users who have several, in place of popular ones."""
    taken = np.bincount(X.indices, minlength=X.shape[1])
    absent = np.flatnonzero(taken == 0)
    lengths = np.diff(X.indptr)
    spared = (taken[X.indices] > 2) & (np.repeat(lengths, lengths) > _SEVERAL)
    events = rng.permutation(np.flatnonzero(spared))
    first_of_item = np.unique(X.indices[events], return_index=True)[1]
    spare = np.delete(events, first_of_item)[: len(absent)]
    indices = X.indices.copy()
    indices[spare] = absent[: len(spare)]
    filled = sparse.csr_array((X.data, indices, X.indptr), shape=X.shape)
    filled.sort_indices()
    return filled
