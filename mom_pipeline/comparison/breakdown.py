"""nDCG by the length of the history and by the age of the item: for whom, and for what, it is good.

The age of an item is counted from the day of its first user to the last training day.
"""

import numpy as np

from mom_pipeline.comparison.split import TrainTest
from mom_pipeline.core.evaluation.metrics import evaluate_ranking
from mom_pipeline.core.types import Array, Csr

HISTORY, AGE = "length of history", "age of item"
# The largest value of each group, in items and in days.
_LENGTHS, _AGES = (2, 5, 10, 30), (7, 30)


def breakdown(ids: Array, trial: TrainTest, cutoff: int) -> dict[str, dict[str, float]]:
    """Return nDCG at a cut-off: kind -> group -> mean over its users.

    A group without any user is left out.  ids: (users of the trial, n).
    """
    lengths = np.diff(trial.train[trial.users].indptr)
    groups = {HISTORY: _by_user(ids, trial.test, lengths, cutoff)}
    if trial.last_days is not None:
        groups[AGE] = _by_item(ids, trial.test, _ages(trial.last_days), cutoff)
    return groups


def _by_user(ids: Array, test: Csr, values: Array, cutoff: int) -> dict[str, float]:
    metrics = evaluate_ranking(ids, test, [cutoff])
    ndcg, values = metrics.per_user["ndcg"][:, 0], values[metrics.users]
    return {
        f"{name} items ({own.sum():,} users)": float(ndcg[own].mean())
        for name, own in _groups(values, _LENGTHS)
        if own.any()
    }


def _by_item(ids: Array, test: Csr, ages: Array, cutoff: int) -> dict[str, float]:
    """NDCG of the items of each group alone, as if nothing else had been wanted."""
    by_group, known = {}, test.indices < len(ages)
    for name, own in _groups(ages, _AGES):
        wanted = test.copy()
        wanted.data = (known & own[np.minimum(test.indices, len(ages) - 1)]).astype(np.float64)
        wanted.eliminate_zeros()
        if wanted.nnz:
            metrics = evaluate_ranking(ids, wanted, [cutoff])
            label = f"{name} days ({metrics.n_users:,} users)"
            by_group[label] = float(metrics.per_user["ndcg"][:, 0].mean())
    return by_group


def _groups(values: Array, largest: tuple[int, ...]) -> list[tuple[str, Array]]:
    """Return name and members of every group."""
    group = np.searchsorted(largest, values)
    starts = (1 if largest is _LENGTHS else 0, *(value + 1 for value in largest))
    names = [
        *(f"{start}–{end}" for start, end in zip(starts, largest, strict=False)),
        f"over {largest[-1]}",
    ]
    return [(name, group == number) for number, name in enumerate(names)]


def _ages(last_days: Csr) -> Array:
    """Return the days since the first user of every item, (D,); those of no user are old."""
    by_item = last_days.tocsc()
    taken = np.flatnonzero(np.diff(by_item.indptr))
    ages = np.full(last_days.shape[1], np.iinfo(np.int64).max)
    first = np.minimum.reduceat(by_item.data, by_item.indptr[taken])
    ages[taken] = by_item.data.max() - first
    return ages
