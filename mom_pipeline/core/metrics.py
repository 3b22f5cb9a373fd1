"""Precision, recall, MAP and nDCG of recommended lists (paper, section 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.types import Array, Csr, Float64

CUTOFFS = (5, 10, 20, 40, 60, 80, 100, 200, 300, 400, 500)
_USERS_PER_BLOCK = 8192


@dataclass(frozen=True)
class RankingMetrics:
    """Means over users at every cut-off, and the values of each user behind them.

    precision, recall, map, ndcg: cut-off -> mean over users.
    per_user: metric name -> (users, cut-offs), rows in the order of `users`.
    users: positions of the users that have test items; n_dropped: users that have none.
    """

    cutoffs: tuple[int, ...]
    precision: dict[int, float]
    recall: dict[int, float]
    map: dict[int, float]
    ndcg: dict[int, float]
    per_user: dict[str, Float64]
    users: Array
    n_dropped: int

    @property
    def n_users(self) -> int:
        """Return how many users the means are over."""
        return len(self.users)


def evaluate_ranking(
    ids: Array, test: Csr, cutoffs: Sequence[int] = CUTOFFS, *, train: Csr | None = None
) -> RankingMetrics:
    """Compare lists with what the users took afterwards.

        precision = hits / k,   recall = hits / |T|,
        AP = sum_r precision@r [hit at r] / min(k, |T|),   nDCG with gains 1 / log2(1 + rank)

    ids: (N, n) item positions, best first, -1 for no item: a short list is a miss.
    test: (N, D). T is the user's items in `test`, less those in `train` if that is given.
    Users with an empty T are dropped and counted.
    """
    cutoffs = _checked_cutoffs(cutoffs)
    test = _relevant_items(ids, test, train)
    n_relevant = np.diff(test.indptr)
    users = np.flatnonzero(n_relevant)
    if len(users) == 0:
        raise InvalidInteractions(
            f"none of the {test.shape[0]} users has a test item to be found; use a later or a "
            "longer test period"
        )
    values = {name: np.empty((len(users), len(cutoffs))) for name in _METRICS}
    for start in range(0, len(users), _USERS_PER_BLOCK):
        rows = slice(start, start + _USERS_PER_BLOCK)
        hits = _hits(ids[users[rows], : cutoffs[-1]], test[users[rows]])
        for name, array in _block_metrics(hits, n_relevant[users[rows]], cutoffs).items():
            values[name][rows] = array
    means = {
        name: dict(zip(cutoffs, array.mean(axis=0).tolist(), strict=True))
        for name, array in values.items()
    }
    return RankingMetrics(
        cutoffs=cutoffs, per_user=values, users=users, n_dropped=test.shape[0] - len(users), **means
    )


_METRICS = ("precision", "recall", "map", "ndcg")


def _checked_cutoffs(cutoffs: Sequence[int]) -> tuple[int, ...]:
    ordered = tuple(sorted({int(k) for k in cutoffs}))
    if not ordered or ordered[0] < 1:
        raise InvalidSetting(f"cut-offs must be whole numbers of at least 1, found {cutoffs}")
    return ordered


def _relevant_items(ids: Array, test: Csr, train: Csr | None) -> Csr:
    if ids.ndim != 2 or len(ids) != test.shape[0]:
        raise InvalidInteractions(
            f"expected one list per user of the test matrix ({test.shape[0]}), "
            f"found an array of shape {ids.shape}"
        )
    taken = test.astype(bool)
    if train is not None:
        taken = taken > train.astype(bool)
    taken.sum_duplicates()
    taken.eliminate_zeros()
    return taken


def _hits(ids: Array, test: Csr) -> Array:
    """Return which listed items are in the user's test items: (users, n), no loop over users."""
    D = test.shape[1]
    rows = np.arange(len(ids))[:, None]
    owners = np.repeat(np.arange(test.shape[0]), np.diff(test.indptr))
    relevant = owners.astype(np.int64) * D + test.indices
    keys = rows * D + ids
    found = np.minimum(np.searchsorted(relevant, keys), len(relevant) - 1)
    return (relevant[found] == keys) & (ids >= 0)


def _block_metrics(hits: Array, n_relevant: Array, cutoffs: tuple[int, ...]) -> dict[str, Float64]:
    """Return every metric of a block of users at every cut-off: (users, cut-offs) each."""
    longest = cutoffs[-1]
    hits = np.pad(hits, [(0, 0), (0, longest - hits.shape[1])])
    ranks = np.arange(1, longest + 1)
    at = np.array(cutoffs) - 1
    n_hits = np.cumsum(hits, axis=1)
    discounts = 1 / np.log2(ranks + 1)
    reachable = np.minimum(np.array(cutoffs), n_relevant[:, None])
    return {
        "precision": n_hits[:, at] / np.array(cutoffs),
        "recall": n_hits[:, at] / n_relevant[:, None],
        "map": np.cumsum(hits * (n_hits / ranks), axis=1)[:, at] / reachable,
        "ndcg": np.cumsum(hits * discounts, axis=1)[:, at] / np.cumsum(discounts)[reachable - 1],
    }
