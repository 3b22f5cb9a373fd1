"""The paper's experiments on one page, on simulated data of its sizes and on the logs at hand."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mom_pipeline.bench.accuracy import recovery_chart, run_recovery
from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import shown, table_of
from mom_pipeline.bench.paper import METHODS as TIMED
from mom_pipeline.bench.paper import N_COMPONENTS, SIZES, TIME_BUDGET, PaperSize, run_paper
from mom_pipeline.comparison import tables
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.results import Comparison, surroundings
from mom_pipeline.comparison.run import Options, Progress, no_progress, run_comparison, within
from mom_pipeline.comparison.split import Split, split_by_days, split_by_time, split_of_matrices
from mom_pipeline.comparison.tables import Table
from mom_pipeline.core.interactions import with_entries
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.report.page import filled
from mom_pipeline.warehouse.connection import Warehouse

if TYPE_CHECKING:
    from mom_pipeline.bench.claims import Claim

# The paper's four, and the ranking of this project beside them.
ALGORITHM_1 = "mom-algorithm-1"
METHODS = ("plsi", "bpr", "wrmf", ALGORITHM_1, "three-moment")
# Of a million users so many are sampled: their mean is known to three digits.
_MAX_USERS = 20_000
_TRAIN_SHARE = 0.75
# Bytes that a method may use: the paper's machine.
_MEMORY = 8_000_000_000
# Title of a column of Table 2 -> its figure in the rows of `bench paper`.
_TABLE_2 = {
    "size": "size",
    "method": "method",
    "paper, s": "paper_seconds",
    "paper, to MoM": "paper_to_mom",
    "here, s": "seconds",
    "to MoM": "to_mom",
    "peak, GB": "peak_gigabytes",
}


@dataclass(frozen=True)
class Plan:
    """How large everything is."""

    sizes: tuple[PaperSize, ...] = tuple(SIZES.values())
    shrink: int = 1  # the paper's sizes are divided by it
    n_components: int = N_COMPONENTS
    recovery: Mapping[str, Any] = field(default_factory=dict)  # arguments of `run_recovery`
    time_budget: float = TIME_BUDGET

    @property
    def is_quick(self) -> bool:
        return self.shrink > 1


# Toy sizes, in which the order of methods and all times mean little.
QUICK = Plan(
    sizes=(SIZES["tafeng"].shrunk(20),),
    shrink=20,
    n_components=10,
    recovery={"users": (2_000, 8_000, 32_000), "n_items": 400, "n_components": 4},
    time_budget=60.0,
)


@dataclass(frozen=True)
class Reproduction:
    """All that was measured."""

    plan: Plan
    recovery: dict[str, Any]  # as `bench recovery` returns it
    rows: list[dict[str, Any]]  # those of `bench paper`
    simulated: tuple[Comparison, ...]  # Figure 2 on data of the paper's sizes
    logs: tuple[Comparison, ...]  # and on the logs at hand


def run_reproduction(
    plan: Plan, logs: Sequence[Split], scratch: Path, progress: Progress = no_progress
) -> Reproduction:
    """Measure everything, one after another; each method in a process of its own."""
    splits = chain(map(simulated_split, plan.sizes), logs)  # one at a time
    n, n_simulated = 2 + len(plan.sizes) + len(logs), len(plan.sizes)
    tell = [within(progress, part / n, 1 / n) for part in range(n)]
    recovery = run_recovery(**plan.recovery, progress=tell[0])
    K, budget = plan.n_components, plan.time_budget
    rows = run_paper(
        plan.sizes, threads="one", n_components=K, time_budget=budget, progress=tell[1]
    )["rows"]
    options = Options(METHODS, ALGORITHM_1, K, budget=Budget(budget, _MEMORY))
    made = tuple(
        run_comparison(split, options, scratch / str(number), tell[2 + number])
        for number, split in enumerate(splits)
    )
    return Reproduction(plan, recovery, rows, made[:n_simulated], made[n_simulated:])


def simulated_split(size: PaperSize) -> Split:
    """Return data of a size of the paper, with its number of test tuples hidden at random."""
    rng = np.random.default_rng(0)
    n_pairs = size.n_pairs + size.n_test_pairs
    X = clustered_interactions(size.n_users, size.n_items, n_pairs, rng).astype(np.float64)
    hidden = np.zeros(X.nnz, dtype=bool)
    hidden[rng.choice(X.nnz, size.n_test_pairs, replace=False)] = True
    name, words = f"simulated, size of {size.title}", "tuples hidden at random"
    train, test = with_entries(X, ~hidden), with_entries(X, hidden)
    split = split_of_matrices(train, test, name=name, kind="simulated", words=words)
    return split.untuned(_MAX_USERS)


def log_split(warehouse: Warehouse, train_days: Collection[date], name: str, plan: Plan) -> Split:
    """The training days of a log, as published or three quarters, and its other days."""
    if train_days:
        split = split_by_days(warehouse, train_days, name=name)
    else:
        with warehouse.reading() as connection:
            days = delivery_days(connection)
        train_until = days[int(_TRAIN_SHARE * (len(days) - 1))] if days else date.max
        split = split_by_time(warehouse, train_until, name=name)
    return split.untuned(_MAX_USERS) if plan.is_quick else split


def render_reproduction(result: Reproduction, claims: Sequence["Claim"]) -> str:
    """Return the HTML of the page, complete in itself."""
    comparisons = (*result.simulated, *result.logs)
    slopes = {row["estimator"]: signed(row["slope"]) for row in result.recovery["slopes"]}
    return filled(
        "reproduction.html",
        plan=result.plan,
        claims=claims,
        slopes={"1/√N": "−0.50", **slopes},
        recovery=recovery_chart(result.recovery),
        groups=table_of("Groups: mean L1 error of O", result.recovery["after_em"]),
        table_1=_table_1(comparisons),
        table_2=_table_2(result),
        curves=[chart for comparison in comparisons for chart in tables.figure_2(comparison)],
        metrics=[tables.metrics_table(comparison) for comparison in comparisons],
        failures=[said for comparison in comparisons for said in tables.failures(comparison)],
        remarks=[
            f"{r['size']}, {r['method']}: {r['failure']}" for r in result.rows if r["failure"]
        ],
        made=surroundings(),
    )


def signed(slope: float) -> str:
    """Return a slope with its sign."""
    return f"{slope:+.2f}".replace("-", "−")


def _table_1(comparisons: Sequence[Comparison]) -> Table:
    """The paper's Table 1, and the data that stand here for its own."""
    paper = [
        tables.described(size.description(f"{size.title} (paper)"))
        | {"Sparsity (training)": tables.scientific(size.sparsity)}
        for size in SIZES.values()
    ]
    here = [tables.described(comparison.data) for comparison in comparisons]
    return Table.of("Table 1: descriptions of the data", [*paper, *here], n_texts=2)


def _table_2(result: Reproduction) -> Table:
    """The paper's Table 2 beside seconds of today, on one core."""
    sizes = f", sizes divided by {result.plan.shrink}" if result.plan.is_quick else ""
    rows = ({**row, "method": TIMED[row["method"]].title} for row in result.rows)
    records = ({title: shown(row[key]) for title, key in _TABLE_2.items()} for row in rows)
    return Table.of(f"Table 2: seconds of the fit on one core{sizes}", records, n_texts=2)
