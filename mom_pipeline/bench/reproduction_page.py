"""The reproduction as one page: claim by claim, the two tables, and the curves."""

from collections.abc import Sequence

from mom_pipeline.bench.accuracy import recovery_chart
from mom_pipeline.bench.claims import Claim, signed
from mom_pipeline.bench.paper import METHODS, SIZES
from mom_pipeline.bench.reproduction import Reproduction
from mom_pipeline.comparison import tables
from mom_pipeline.comparison.results import surroundings
from mom_pipeline.report.page import environment
from mom_pipeline.report.sections import PageTable


def render_reproduction(result: Reproduction, claims: Sequence[Claim]) -> str:
    """Return the HTML of the page, complete in itself."""
    comparisons = (*result.simulated, *result.logs)
    rows = result.times["rows"]
    slopes = {row["estimator"]: signed(row["slope"]) for row in result.recovery["slopes"]}
    page = environment().get_template("reproduction.html")
    return page.render(
        plan=result.plan,
        claims=claims,
        slopes={"1/√N": "−0.50", **slopes},
        recovery=recovery_chart(result.recovery),
        table_1=_table_1(result),
        table_2=_table_2(result),
        curves=[chart for comparison in comparisons for chart in tables.figure_2(comparison)],
        metrics=[
            PageTable(table.title, table.columns, table.rows)
            for table in map(tables.metrics_table, comparisons)
        ],
        failures=[said for comparison in comparisons for said in tables.failures(comparison)],
        remarks=[f"{r['size']}, {r['method']}: {r['failure']}" for r in rows if r["failure"]],
        made=surroundings(),
    )


def _table_1(result: Reproduction) -> PageTable:
    """The paper's Table 1, and the data that stand here for its own."""
    paper = [
        (
            f"{size.title} (paper)",
            size.kind,
            *(f"{n:,}" for n in (size.n_users, size.n_items, size.n_pairs)),
            tables.scientific(size.sparsity),
            f"{size.n_test_pairs:,}",
        )
        for size in SIZES.values()
    ]
    here = [tables.description_table(c) for c in (*result.simulated, *result.logs)]
    rows = [*paper, *(row for table in here for row in table.rows)]
    return PageTable("Table 1: descriptions of the data", here[0].columns, rows, n_texts=2)


def _table_2(result: Reproduction) -> PageTable:
    """The paper's Table 2 beside seconds of today, on one core."""
    columns = {
        "paper, s": ("paper_seconds", ",.0f"),
        "paper, to MoM": ("paper_to_mom", ".2f"),
        "here, s": ("seconds", ",.1f"),
        "to MoM": ("to_mom", ".2f"),
        "peak, GB": ("peak_gigabytes", ",.2f"),
    }
    rows = [
        [
            row["size"],
            METHODS[row["method"]].title,
            *(_shown(row[name], form) for name, form in columns.values()),
        ]
        for row in result.times["rows"]
    ]
    sizes = f", sizes divided by {result.plan.shrink}" if result.plan.is_quick else ""
    title = f"Table 2: seconds of the fit on one core{sizes}"
    return PageTable(title, ("size", "method", *columns), rows, n_texts=2)


def _shown(value: float | None, form: str) -> str:
    return tables.NO_VALUE if value is None else format(value, form)
