"""The paper's experiments again: recovery of a known truth, Tables 1 and 2, and Figure 2.

Its data sets are not shipped: simulated data of their sizes stand for them, and the logs at hand
stand beside. What the figures say about the paper's claims is in `claims.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.accuracy import USERS, run_recovery
from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import Progress, no_progress, within
from mom_pipeline.bench.paper import N_COMPONENTS, SIZES, TIME_BUDGET, PaperSize, run_paper
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.results import Comparison
from mom_pipeline.comparison.run import Options, run_comparison
from mom_pipeline.comparison.split import (
    Split,
    split_by_days,
    split_by_time,
    split_of_matrices,
)
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.warehouse.connection import Warehouse

# The paper's four, and the ranking of this project beside them.
ALGORITHM_1 = "mom-algorithm-1"
METHODS = ("plsi", "bpr", "wrmf", ALGORITHM_1, "three-moment")
# Of a million users so many are sampled: their mean is known to three digits.
_MAX_USERS = 20_000
_TRAIN_SHARE = 0.75
# Bytes that a method may use: the paper's machine.
_MEMORY = 8_000_000_000
# Shares of the progress bar: recovery, times, and the rest for the curves.
_RECOVERY_SHARE, _TIMES_SHARE = 0.15, 0.35


@dataclass(frozen=True)
class Plan:
    """How large everything is. shrink: the paper's sizes are divided by it."""

    sizes: tuple[PaperSize, ...] = tuple(SIZES.values())
    shrink: int = 1
    n_components: int = N_COMPONENTS
    recovery_users: tuple[int, ...] = USERS
    recovery_items: int = 5_000
    recovery_components: int = 8
    time_budget: float = TIME_BUDGET
    seed: int = 0

    @property
    def is_quick(self) -> bool:
        return self.shrink > 1


# Toy sizes, in which the order of methods and all times mean little.
QUICK = Plan(
    sizes=(SIZES["tafeng"].shrunk(20),),
    shrink=20,
    n_components=10,
    recovery_users=(2_000, 8_000, 32_000),
    recovery_items=400,
    recovery_components=4,
    time_budget=60.0,
)


@dataclass(frozen=True)
class LogToSplit:
    """A log at hand. train_days: those that its publication names; none: three quarters."""

    name: str
    warehouse: Warehouse
    train_days: tuple[date, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """All that was measured.

    recovery, times: as `bench recovery` and `bench paper` return them.
    simulated, logs: Figure 2 on data of the paper's sizes, and on the logs at hand.
    """

    plan: Plan
    recovery: dict[str, Any]
    times: dict[str, Any]
    simulated: tuple[Comparison, ...]
    logs: tuple[Comparison, ...]


def run_reproduction(
    plan: Plan, logs: Sequence[LogToSplit], scratch: Path, progress: Progress = no_progress
) -> Reproduction:
    """Measure everything, one after another; each method in a process of its own."""
    # Read first: a log that cannot be split is to be known before hours of work.
    splits = [log_split(log, plan) for log in logs]
    recovery = run_recovery(
        users=plan.recovery_users,
        n_items=plan.recovery_items,
        n_components=plan.recovery_components,
        seed=plan.seed,
        progress=within(progress, 0.0, _RECOVERY_SHARE),
    )
    times = run_paper(
        plan.sizes,
        threads="one",
        n_components=plan.n_components,
        time_budget=plan.time_budget,
        seed=plan.seed,
        progress=within(progress, _RECOVERY_SHARE, _TIMES_SHARE),
    )
    options = Options(
        methods=METHODS,
        reference=ALGORITHM_1,
        n_components=plan.n_components,
        seed=plan.seed,
        budget=Budget(plan.time_budget, _MEMORY),
    )
    simulated = (simulated_split(size, plan.seed) for size in plan.sizes)  # one at a time
    n, begin = len(plan.sizes) + len(splits), _RECOVERY_SHARE + _TIMES_SHARE
    made: list[Comparison] = []
    for split in chain(simulated, splits):
        tell = within(progress, begin + (1 - begin) * len(made) / n, (1 - begin) / n)
        made.append(run_comparison(split, options, scratch / str(len(made)), tell))
    of_logs = len(plan.sizes)
    return Reproduction(plan, recovery, times, tuple(made[:of_logs]), tuple(made[of_logs:]))


def simulated_split(size: PaperSize, seed: int) -> Split:
    """Return data of a size of the paper, with its number of test tuples hidden at random."""
    rng = np.random.default_rng(seed)
    n_pairs = size.n_pairs + size.n_test_pairs
    X = clustered_interactions(size.n_users, size.n_items, n_pairs, rng)
    hidden = np.zeros(X.nnz, dtype=bool)
    hidden[rng.choice(X.nnz, size.n_test_pairs, replace=False)] = True
    split = split_of_matrices(
        _part(X, ~hidden),
        _part(X, hidden),
        name=f"simulated, size of {size.title}",
        kind="simulated",
        words="tuples hidden at random",
    )
    return split.untuned(_MAX_USERS, seed)


def _part(X: Csr, chosen: Array) -> Csr:
    pairs = X.tocoo()
    data = pairs.data[chosen].astype(np.float64)
    return sparse.csr_array((data, (pairs.row[chosen], pairs.col[chosen])), shape=X.shape)


def log_split(log: LogToSplit, plan: Plan) -> Split:
    """Return the training days of a log and its other days; settings are chosen on the former."""
    if log.train_days:
        split = split_by_days(log.warehouse, log.train_days, name=log.name, seed=plan.seed)
    else:
        with log.warehouse.reading() as connection:
            days = delivery_days(connection)
        train_until = days[int(_TRAIN_SHARE * (len(days) - 1))] if days else date.max
        split = split_by_time(log.warehouse, train_until, name=log.name, seed=plan.seed)
    return split.untuned(_MAX_USERS, plan.seed) if plan.is_quick else split
