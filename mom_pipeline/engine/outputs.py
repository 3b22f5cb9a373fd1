"""Outputs of a model for users in shards: memberships, lists and their metrics.

Results with a row per user do not travel: workers write one Parquet file per shard into one
folder, and only counts and sums of metrics come back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.evaluation.metrics import CUTOFFS, METRICS, evaluate_ranking
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.model import MethodOfMoments
from mom_pipeline.core.moments.users import rows_of
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.engine.shards import ShardRows, Shards, absolute, write_file
from mom_pipeline.engine.users import Engine


@dataclass(frozen=True)
class MembershipsPass:
    """Writes P[component | user] of every user, in single precision; returns their number."""

    model: FittedModel
    folder: str

    def __call__(self, rows: ShardRows) -> int:
        P = self.model.memberships(rows.X)
        flat = pa.FixedSizeListArray.from_arrays(pa.array(P.astype(np.float32).ravel()), P.shape[1])
        _write(self.folder, rows.name, {"user": rows.positions, "memberships": flat})
        return len(P)


@dataclass(frozen=True)
class ListsPass:
    """Writes the n best items of every user; returns the number of entries."""

    model: FittedModel
    n: int
    folder: str
    exclude_seen: bool = True

    def __call__(self, rows: ShardRows) -> int:
        best = self.model.best(rows.X, self.n, exclude_seen=self.exclude_seen)
        owners, ranks = np.nonzero(best.items >= 0)
        _write(
            self.folder,
            rows.name,
            {
                "user": rows.positions[owners],
                "rank": (ranks + 1).astype(np.int32),
                "item": best.items[owners, ranks].astype(np.int32),
                "score": best.scores[owners, ranks].astype(np.float64),
            },
        )
        return len(owners)


@dataclass(frozen=True)
class MetricSums:
    """Metrics summed over users. sums: (metrics, cut-offs).  n_dropped: without test items."""

    cutoffs: tuple[int, ...]
    sums: Float64
    n_users: int
    n_dropped: int

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.cutoffs,
            self.sums + other.sums,
            self.n_users + other.n_users,
            self.n_dropped + other.n_dropped,
        )

    def mean(self, metric: str, cutoff: int) -> float:
        """Return the mean of a metric over the users with test items."""
        total = self.sums[METRICS.index(metric), self.cutoffs.index(cutoff)]
        return float(total / max(self.n_users, 1))


@dataclass(frozen=True)
class EvaluationPass:
    """Compares every user's list with the later items, in shards of the same number."""

    model: FittedModel
    later: Shards
    cutoffs: tuple[int, ...] = CUTOFFS

    def __call__(self, rows: ShardRows) -> MetricSums:
        test = self._later_rows(rows)
        n_dropped = int((np.diff(test.indptr) == 0).sum())
        empty = np.zeros((len(METRICS), len(self.cutoffs)))
        if n_dropped == test.shape[0]:
            return MetricSums(self.cutoffs, empty, 0, n_dropped)
        best = self.model.best(rows.X, self.cutoffs[-1])
        metrics = evaluate_ranking(best.items, test, self.cutoffs)
        sums = np.array([metrics.per_user[name].sum(axis=0) for name in METRICS])
        return MetricSums(self.cutoffs, sums, metrics.n_users, n_dropped)

    def _later_rows(self, rows: ShardRows) -> Csr:
        """Return the new items of the same users, in the same order; (users, D)."""
        later = rows_of(self.later.read(rows.index), rows.positions).X
        return sparse.csr_array((later > 0) > (rows.X > 0))


def write_memberships(engine: Engine, shards: Shards, model: MethodOfMoments, folder: str) -> int:
    """Write P[component | user] of all users to a folder or URL; return the number of users."""
    return engine.add_up(MembershipsPass(model.fitted.answering(), absolute(folder)), shards)


def write_lists(
    engine: Engine,
    shards: Shards,
    model: MethodOfMoments,
    n: int,
    folder: str,
    *,
    exclude_seen: bool = True,
) -> int:
    """Write the n best items of all users to a folder or URL; return the number of entries."""
    work = ListsPass(model.fitted.answering(), n, absolute(folder), exclude_seen)
    return engine.add_up(work, shards)


def evaluate_shards(
    engine: Engine,
    shards: Shards,
    later: Shards,
    model: MethodOfMoments,
    cutoffs: Sequence[int] = CUTOFFS,
) -> MetricSums:
    """Compare lists of new items with what the users took later; return sums of metrics.

    Users of `later` who have no row in `shards` have no list; users without test items are
    dropped and counted.
    """
    if len(shards.entries) != len(later.entries) or shards.shape != later.shape:
        raise InvalidInteractions(
            f"expected later rows of {shards.shape} in {len(shards.entries)} shards, found "
            f"{later.shape} in {len(later.entries)}; write both with the same users and number"
        )
    work = EvaluationPass(model.fitted.answering(), later, tuple(sorted(cutoffs)))
    return engine.add_up(work, shards)


def _write(folder: str, name: str, columns: dict[str, Array | pa.Array]) -> None:
    table = BytesIO()
    pq.write_table(pa.table(columns), table, compression="zstd")
    write_file(f"{folder}/{name}", table.getvalue())
