"""The reproduction as one page: claim by claim, the two tables, and the curves."""

from collections.abc import Sequence
from typing import Any

from mom_pipeline.bench.accuracy import recovery_chart
from mom_pipeline.bench.claims import PAPER, UNBIASED, Claim, signed
from mom_pipeline.bench.paper import METHODS, SIZES
from mom_pipeline.bench.reproduction import Reproduction
from mom_pipeline.comparison.results import surroundings
from mom_pipeline.comparison.tables import (
    NO_VALUE,
    description_table,
    failures,
    figure_2,
    metrics_table,
    scientific,
)
from mom_pipeline.report.page import environment
from mom_pipeline.report.sections import Picture, Table


def render_reproduction(result: Reproduction, claims: Sequence[Claim]) -> str:
    """Return the HTML of the page, complete in itself."""
    comparisons = (*result.simulated, *result.logs)
    recovery = Picture(
        recovery_chart(result.recovery),
        "Error of O over the number of users: the paper's estimator levels off, the unbiased "
        "one falls along 1/√N.",
    )
    return (
        environment()
        .get_template("reproduction.html")
        .render(
            plan=result.plan,
            claims=claims,
            slopes={
                "1/√N": "−0.50",
                "the paper's estimator": signed(result.recovery["slopes"][PAPER]),
                "the unbiased one": signed(result.recovery["slopes"][UNBIASED]),
            },
            recovery=recovery,
            table_1=table_1(result),
            table_2=table_2(result),
            curves=[
                Picture(figure, f"{figure.axes.title}: one line per method.")
                for comparison in comparisons
                for figure in figure_2(comparison)
            ],
            metrics=[_as_table(metrics_table(comparison)) for comparison in comparisons],
            failures=[said for comparison in comparisons for said in failures(comparison)],
            remarks=result.times["remarks"],
            made=surroundings(),
        )
    )


def table_1(result: Reproduction) -> Table:
    """The paper's Table 1, and the data that stand here for its own."""
    paper = [
        (
            f"{size.title} (paper)",
            size.kind,
            f"{size.n_users:,}",
            f"{size.n_items:,}",
            f"{size.n_pairs:,}",
            scientific(size.sparsity),
            f"{size.n_test_pairs:,}",
        )
        for size in SIZES.values()
    ]
    here = [description_table(c) for c in (*result.simulated, *result.logs)]
    rows = [*paper, *(row for table in here for row in table.rows)]
    return Table("Table 1: descriptions of the data", here[0].columns, rows, n_texts=2)


def table_2(result: Reproduction) -> Table:
    """The paper's Table 2 beside seconds of today, on one core."""
    rows = []
    for size in result.times["sizes"]:
        for row in size["rows"]:
            rows.append(
                (
                    size["title"],
                    METHODS[row["method"]].title,
                    _shown(row["paper_seconds"], ",.0f"),
                    _shown(row["paper_to_mom"], ".2f"),
                    _shown(row["seconds"], ",.1f"),
                    _shown(row["to_mom"], ".2f"),
                    _shown(row["peak_bytes"], ",.2f", unit=1e9),
                )
            )
    columns = ("size", "method", "paper, s", "to MoM", "here, s", "to MoM", "peak, GB")
    sizes = f", sizes divided by {result.plan.shrink}" if result.plan.is_quick else ""
    return Table(f"Table 2: seconds of the fit on one core{sizes}", columns, rows, n_texts=2)


def _as_table(table: Any) -> Table:
    return Table(table.title, table.columns, table.rows)


def _shown(value: float | None, form: str, *, unit: float = 1.0) -> str:
    return NO_VALUE if value is None else format(value / unit, form)
