"""Lists against what users took (paper, section 4), coverage and novelty, paired intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.interactions import rows_of_entries
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

CUTOFFS = (5, 10, 20, 40, 60, 80, 100, 200, 300, 400, 500)
SHOWN_CUTOFF = 20
METRICS = ("precision", "recall", "map", "ndcg")
# Users handled together.
_USERS_PER_BLOCK = 512
# Samples of a bootstrap, and its counts in memory at once on each thread: 16 MB.
_SAMPLES, _COUNTS_PER_BLOCK = 1000, 2_000_000


@dataclass(frozen=True)
class RankingMetrics:
    """Means over users at every cut-off, and the values of each user behind them."""

    cutoffs: tuple[int, ...]
    precision: dict[int, float]  # cut-off -> mean over users, as the others
    recall: dict[int, float]
    map: dict[int, float]
    ndcg: dict[int, float]
    per_user: dict[str, Float64]  # metric -> (users, cut-offs), in the order of `users`
    users: Array  # positions of the users that have test items
    n_dropped: int  # users that have none

    @classmethod
    def from_values(
        cls, cutoffs: tuple[int, ...], per_user: dict[str, Float64], users: Array, n_dropped: int
    ) -> Self:
        """Return the means of each user's values, with the values."""
        means = {
            name: dict(zip(cutoffs, array.mean(axis=0).tolist(), strict=True))
            for name, array in per_user.items()
        }
        return cls(cutoffs=cutoffs, per_user=per_user, users=users, n_dropped=n_dropped, **means)

    @property
    def n_users(self) -> int:
        """How many users the means are over."""
        return len(self.users)


def evaluate_ranking(ids: Array, test: Csr, cutoffs: Sequence[int] = CUTOFFS) -> RankingMetrics:
    """Compare lists with what the users took afterwards.

        precision = hits / k,   recall = hits / |T|,
        AP = sum_r precision@r [hit at r] / min(k, |T|),   nDCG with gains 1 / log2(1 + rank)

    ids: (N, n) item positions, best first, -1 for no item: a short list is a miss. A block of
    users is read at a time, so that a memory-mapped file will do.
    test: (N, D), of T, the user's relevant items. Users with an empty T are dropped and counted.
    """
    cutoffs = checked_cutoffs(cutoffs)
    if ids.ndim != 2 or len(ids) != test.shape[0]:
        raise InvalidInteractions(
            f"expected one list per user of the test matrix ({test.shape[0]}), "
            f"found an array of shape {ids.shape}"
        )
    test = _canonical(test.astype(bool))
    users = np.flatnonzero(np.diff(test.indptr))
    if len(users) == 0:
        raise InvalidInteractions(
            f"none of the {test.shape[0]} users has a relevant test item; use a later or a "
            "longer test period"
        )
    values = {name: np.empty((len(users), len(cutoffs))) for name in METRICS}

    def block(start: int) -> None:
        rows = slice(start, start + _USERS_PER_BLOCK)
        lists, relevant = ids[users[rows], : cutoffs[-1]], test[users[rows]]
        for name, array in _metrics_of(lists, relevant, cutoffs).items():
            values[name][rows] = array

    map_blocks(block, range(0, len(users), _USERS_PER_BLOCK))
    return RankingMetrics.from_values(cutoffs, values, users, test.shape[0] - len(users))


def checked_cutoffs(cutoffs: Sequence[int]) -> tuple[int, ...]:
    """Return the cut-offs in order, each once."""
    ordered = tuple(sorted({int(k) for k in cutoffs}))
    if not ordered or ordered[0] < 1:
        raise InvalidSetting(f"cut-offs must be whole numbers of at least 1, found {cutoffs}")
    return ordered


def nearest_cutoff(cutoffs: Sequence[int]) -> int:
    """Return the cut-off that is shown where there is room for one: the nearest to 20."""
    return min(cutoffs, key=lambda cutoff: abs(cutoff - SHOWN_CUTOFF))


def _canonical(taken: Csr) -> Csr:
    taken.sum_duplicates()
    taken.eliminate_zeros()
    return taken


def _metrics_of(ids: Array, relevant: Csr, cutoffs: tuple[int, ...]) -> dict[str, Float64]:
    """Metrics of lists (users, n) by relevant items (users, D): (users, cut-offs) each."""
    D = relevant.shape[1]
    keys = rows_of_entries(relevant) * D + relevant.indices  # rising
    wanted = np.arange(len(ids))[:, None] * D + ids
    nearest = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    # Hits, ordered by user and then by rank, from 0.
    users, ranks = np.nonzero((keys[nearest] == wanted) & (ids >= 0))
    at = np.array(cutoffs)
    n_relevant = np.diff(relevant.indptr)[:, None]
    shape = (len(n_relevant), len(at))
    # A hit counts from the first cut-off on that reaches its rank.
    cells = users * len(at) + np.searchsorted(at, ranks, side="right")

    def cumulated(gains: Array | None) -> Float64:
        sums = np.bincount(cells, weights=gains, minlength=shape[0] * shape[1])
        return np.cumsum(sums.reshape(shape), axis=1, dtype=np.float64)

    n_hits = cumulated(None)
    before = np.cumsum(n_hits[:, -1]) - n_hits[:, -1]
    ordinals = np.arange(1, len(users) + 1) - before[users]
    reachable = np.minimum(at, n_relevant)
    ideal = np.cumsum(1 / np.log2(np.arange(2, at[-1] + 2)))
    return {
        "precision": n_hits / at,
        "recall": n_hits / n_relevant,
        "map": cumulated(ordinals / (ranks + 1)) / reachable,
        "ndcg": cumulated(1 / np.log2(ranks + 2)) / ideal[reachable - 1],
    }


class CatalogueUse(NamedTuple):
    """Two figures over all lists together, by cut-off."""

    coverage: dict[int, float]  # share of the catalogue that is in any list
    novelty: dict[int, float]  # mean of -log2(share of users who have the item), bits


def catalogue_use(ids: Array, train: Csr, cutoffs: Sequence[int] = CUTOFFS) -> CatalogueUse:
    """Coverage and novelty of lists (N, n), -1 for no item. train: (any, D) no column empty."""
    D, bits, use = train.shape[1], _information(train), CatalogueUse({}, {})
    listed, n_listed, information, start = np.zeros(D, dtype=bool), 0, 0.0, 0
    for k in checked_cutoffs(cutoffs):
        items = ids[:, start:k]
        items = items[items >= 0]
        listed[items] = True
        n_listed += len(items)
        information += float(bits[items].sum())
        use.coverage[k] = float(listed.mean())
        use.novelty[k] = information / max(n_listed, 1)
        start = k
    return use


def _information(train: Csr) -> Float64:
    """Return -log2(share of users who have the item), (D,)."""
    taken = _canonical(train.astype(bool))
    n_users = max(int((np.diff(taken.indptr) > 0).sum()), 1)
    item_users = np.bincount(taken.indices, minlength=train.shape[1])
    return np.asarray(-np.log2(np.maximum(item_users, 1) / n_users))


def paired_interval(
    values: Array, reference: Array, rng: np.random.Generator, *, level: float = 0.95
) -> tuple[Float64, Float64, Float64]:
    """Return the mean difference and the ends of its paired bootstrap interval.

        d_u = values_u - reference_u,   mean_s = sum_u c_su d_u / N,   c_s ~ Multinomial(N, 1/N)

    values, reference: (users, ...) of the same users in the same order; every figure behind the
    first axis has an interval of its own, from the same resampled users. The ends are the
    quantiles (1 - level) / 2 and (1 + level) / 2 of the resampled means.
    Equal generators give equal intervals, whatever the number of threads.
    """
    if values.shape != reference.shape or not values.size:
        raise InvalidInteractions(
            f"expected figures of the same users, found {values.shape} and {reference.shape}"
        )
    N, shape = len(values), values.shape[1:]
    d = np.subtract(values, reference, dtype=np.float64).reshape(N, -1)
    per_block = max(1, _COUNTS_PER_BLOCK // N)
    sizes = [min(per_block, _SAMPLES - start) for start in range(0, _SAMPLES, per_block)]

    def resampled(task: tuple[int, np.random.Generator]) -> Float64:
        n_samples, own_rng = task
        drawn = own_rng.integers(0, N, (n_samples, N))
        drawn += np.arange(0, n_samples * N, N)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=n_samples * N).astype(np.float64)
        return np.asarray(counts.reshape(n_samples, N) @ d / N)

    means = np.concatenate(map_blocks(resampled, zip(sizes, rng.spawn(len(sizes)), strict=True)))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return d.mean(axis=0).reshape(shape), low.reshape(shape), high.reshape(shape)
