"""What a model says about the users of shards: memberships, lists, and how good they are.

Results with a row per user do not travel: workers write them beside each other, one Parquet
file per shard, and only counts and metrics come back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.engine.files import absolute, write_whole
from mom_pipeline.engine.interface import Engine
from mom_pipeline.engine.shards import ShardRows, Shards


@dataclass(frozen=True)
class ClassLists:
    """Makes lists of a model's classes; prepared once for all shards of a worker."""

    model: FittedModel

    def best(self, X: Csr, n: int, *, exclude_seen: bool = True) -> tuple[Array, Array]:
        """Return the n best items of every user and their scores, (N, n) each."""
        best = self.model.best(X, n, exclude_seen=exclude_seen)
        return best.items.astype(np.int32), best.scores.astype(self.model.item_probs.dtype)


def as_sent(model: MethodOfMoments) -> FittedModel:
    """Return as much of a model as its classes need: the basis is for the next fit alone."""
    fitted = model.fitted
    return replace(fitted, basis=fitted.basis[:, :0], pair_ranking=None, diagnostics={})


@dataclass(frozen=True)
class MembershipsPass:
    """Writes P[class | user] of every user; returns how many users these are."""

    model: FittedModel
    folder: str

    def __call__(self, rows: ShardRows) -> int:
        P = self.model.memberships(rows.X)
        flat = pa.FixedSizeListArray.from_arrays(pa.array(P.ravel()), P.shape[1])
        _write(self.folder, rows.name, {"user": rows.positions, "memberships": flat})
        return len(P)


@dataclass(frozen=True)
class ListsPass:
    """Writes the n best items of every user; returns how many entries these are."""

    lists: ClassLists
    n: int
    folder: str
    exclude_seen: bool = True

    def __call__(self, rows: ShardRows) -> int:
        ids, scores = self.lists.best(rows.X, self.n, exclude_seen=self.exclude_seen)
        owners, ranks = np.nonzero(ids >= 0)
        _write(
            self.folder,
            rows.name,
            {
                "user": rows.positions[owners],
                "rank": (ranks + 1).astype(np.int32),
                "item": ids[owners, ranks],
                "score": scores[owners, ranks].astype(np.float64),
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
        place = METRICS.index(metric), self.cutoffs.index(cutoff)
        return float(self.sums[place] / max(self.n_users, 1))


@dataclass(frozen=True)
class EvaluationPass:
    """Lists of every user held against what they took later, in shards of the same number."""

    lists: ClassLists
    later: Shards
    cutoffs: tuple[int, ...] = CUTOFFS

    def __call__(self, rows: ShardRows) -> MetricSums:
        test = self._later_rows(rows)
        n_dropped = int((np.diff(test.indptr) == 0).sum())
        empty = np.zeros((len(METRICS), len(self.cutoffs)))
        if n_dropped == test.shape[0]:
            return MetricSums(self.cutoffs, empty, 0, n_dropped)
        ids, _ = self.lists.best(rows.X, self.cutoffs[-1])
        found = evaluate_ranking(ids, test, self.cutoffs)
        sums = np.array([found.per_user[name].sum(axis=0) for name in METRICS])
        return MetricSums(self.cutoffs, sums, found.n_users, n_dropped)

    def _later_rows(self, rows: ShardRows) -> Csr:
        """Return the new items of the same users, in the same order; (users, D)."""
        later = self.later.read(rows.place)
        place = np.searchsorted(later.positions, rows.positions)
        known = place < len(later.positions)
        known[known] = later.positions[place[known]] == rows.positions[known]
        chosen = sparse.csr_array(
            (np.ones(known.sum()), (np.flatnonzero(known), place[known])),
            shape=(len(rows.positions), len(later.positions)),
        )
        return sparse.csr_array(((chosen @ later.X) > 0) > (rows.X > 0))


def write_memberships(engine: Engine, shards: Shards, model: MethodOfMoments, folder: str) -> int:
    """Write P[class | user] of all users below a folder or URL; returns how many users."""
    return engine.add_up(MembershipsPass(as_sent(model), absolute(folder)), shards)


def write_lists(
    engine: Engine,
    shards: Shards,
    model: MethodOfMoments,
    n: int,
    folder: str,
    *,
    exclude_seen: bool = True,
) -> int:
    """Write the n best items of all users below a folder or URL; returns how many entries."""
    work = ListsPass(ClassLists(as_sent(model)), n, absolute(folder), exclude_seen)
    return engine.add_up(work, shards)


def evaluate_shards(
    engine: Engine,
    shards: Shards,
    later: Shards,
    model: MethodOfMoments,
    cutoffs: Sequence[int] = CUTOFFS,
) -> MetricSums:
    """Compare lists of new items with what the users took later.

    Users of `later` who have no row in `shards` have no list; users without test items are
    dropped and counted.
    """
    if len(shards.entries) != len(later.entries) or shards.shape != later.shape:
        raise InvalidInteractions(
            f"expected later rows of {shards.shape} in {len(shards.entries)} shards, found "
            f"{later.shape} in {len(later.entries)}; write both with the same users and number"
        )
    work = EvaluationPass(ClassLists(as_sent(model)), later, tuple(sorted(cutoffs)))
    return engine.add_up(work, shards)


def _write(folder: str, name: str, columns: dict[str, Array | pa.Array]) -> None:
    table = BytesIO()
    pq.write_table(pa.table(columns), table, compression="zstd")
    write_whole(f"{folder}/{name}", table.getvalue())
