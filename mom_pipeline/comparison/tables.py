"""A comparison in tables, the paper's two and the metrics with their intervals; and Figure 2."""

from collections.abc import Sequence
from dataclasses import dataclass

from mom_pipeline.comparison.results import Comparison, Interval, MethodResult
from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.pictures.charts import Axes, Lines, spaced

NO_VALUE = "–"
# Characters that a column takes at most, and those of its frame.
_MAX_COLUMN, _BETWEEN = 24, 3
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
METRICS = {"precision": "Precision", "recall": "Recall", "map": "MAP", "ndcg": "nDCG"}


@dataclass(frozen=True)
class Table:
    """Texts in rows and columns. words: the columns that are not of numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ("method", "Name", "Type", "Dataset", "settings chosen")

    def parts(self, width: int) -> list["Table"]:
        """Return pieces of at most `width` characters, each with the first column."""
        widths = [
            min(_MAX_COLUMN, max(len(text) for text in (name, *cells))) + _BETWEEN
            for name, *cells in zip(self.columns, *self.rows, strict=True)
        ]
        groups: list[list[int]] = [[]]
        for column in range(1, len(widths)):
            taken = widths[0] + sum(widths[c] for c in groups[-1]) + 1
            if groups[-1] and taken + widths[column] > width:
                groups.append([])
            groups[-1].append(column)
        return [self._with_columns([0, *group]) for group in groups]

    def _with_columns(self, kept: list[int]) -> "Table":
        rows = tuple(tuple(row[c] for c in kept) for row in self.rows)
        return Table(self.title, tuple(self.columns[c] for c in kept), rows, self.words)

    def records(self) -> list[dict[str, str]]:
        """Return the rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def description_table(comparison: Comparison) -> Table:
    """The paper's Table 1: what the data are.

    As in the paper, sparsity is the share of cells that are not empty.
    """
    data = comparison.data
    cells = {
        "Name": data.name,
        "Type": data.kind or NO_VALUE,
        "# of Users": f"{data.users:,}",
        "# of Items": f"{data.items:,}",
        "# of Tuples (training)": f"{data.train_tuples:,}",
        "Sparsity (training)": scientific(data.train_tuples / (data.users * data.items)),
        "# of Tuples (test)": f"{data.test_tuples:,}",
    }
    return Table("Description of the data", tuple(cells), (tuple(cells.values()),))


def time_table(comparison: Comparison) -> Table:
    """The paper's Table 2: seconds of the fit; a dash for a method that did not finish."""
    results = comparison.results
    columns = ("Dataset", *(result.title for result in results))
    row = (comparison.data.name, *(_or_dash(r, f"{r.fit_seconds:.3g}") for r in results))
    return Table("Computation time (sec)", columns, (row,))


def cost_table(comparison: Comparison) -> Table:
    """What each method took, in a process of its own."""
    columns = ("method", "choosing, s", "fit, s", "lists, s", "peak memory, MB", "settings chosen")
    rows = tuple(
        (
            r.title,
            f"{r.choice_seconds:.1f}",
            _or_dash(r, f"{r.fit_seconds:.2f}"),
            _or_dash(r, f"{r.predict_seconds:.2f}"),
            _or_dash(r, f"{r.peak_bytes / 1e6:,.0f}"),
            ", ".join(f"{name} {value}" for name, value in r.settings.items()) or NO_VALUE,
        )
        for r in comparison.results
    )
    longest = max(comparison.cutoffs)
    title = f"Costs: lists of up to {longest} for {comparison.n_users:,} users"
    return Table(title, columns, rows)


def metrics_table(comparison: Comparison) -> Table:
    """The main table: metrics at 20, with the differences to the reference and their intervals."""
    c = shown_cutoff(comparison.cutoffs)
    base = comparison.result(comparison.reference)
    rows = [_metrics_cells(result, c, comparison.cutoffs[c], base) for result in comparison.results]
    title = (
        f"{comparison.data.name}: {comparison.n_users:,} users; differences (Δ) to {base.title} "
        "in thousandths"
    )
    return Table(title, tuple(rows[0]), tuple(tuple(row.values()) for row in rows))


def cutoff_table(comparison: Comparison, metric: str) -> Table:
    """One metric at every cut-off."""
    columns = ("method", *(f"@{k}" for k in comparison.cutoffs))
    rows = tuple(
        (r.title, *(f"{value:.4f}" for value in r.means.get(metric, ())))
        if not r.failure
        else (r.title, *([NO_VALUE] * len(comparison.cutoffs)))
        for r in comparison.results
    )
    return Table(f"{METRICS[metric]}, {comparison.n_users:,} users", columns, rows)


def group_tables(comparison: Comparison) -> list[Table]:
    """NDCG of groups of users and of items, one table for each way to group."""
    k, base = nearest_cutoff(comparison.cutoffs), comparison.result(comparison.reference)
    measured = base if base.groups else next(r for r in comparison.results if r.groups)
    return [
        Table(
            f"nDCG@{k} by {kind}",
            ("method", *groups),
            tuple(
                (r.title, *(f"{r.groups[kind][g]:.4f}" if r.groups else NO_VALUE for g in groups))
                for r in comparison.results
            ),
        )
        for kind, groups in measured.groups.items()
    ]


def remarks(comparison: Comparison) -> list[str]:
    """Sentences that belong below the tables: how it was made, who is missing, what failed."""
    base = comparison.result(comparison.reference)
    without_base = f"There are no differences, because the reference {base.title} has no result."
    return [
        f"{comparison.period[:1].upper()}{comparison.period[1:]}.",
        *_remarks_on_users(comparison),
        *_remarks_on_iterations(comparison),
        *([without_base] if base.failure else []),
        *failures(comparison),
    ]


def _remarks_on_users(comparison: Comparison) -> list[str]:
    """Who is measured, and which items no method can list."""
    seen = "excluded from" if comparison.exclude_seen else "allowed in"
    counts = (
        (comparison.n_newcomers, "without a history"),
        (comparison.n_dropped, "who took nothing new"),
    )
    left_out = " and ".join(f"{n:,} {who}" for n, who in counts if n)
    said = [
        f"Users measured: {comparison.n_users:,}; left out: {left_out or 'none'}. "
        f"Items of the own history are {seen} the lists."
    ]
    if comparison.n_unknown:
        said.append(
            f"{comparison.n_unknown:,} of the relevant pairs are of items outside of the "
            f"{comparison.data.items:,} trained on: every method misses them."
        )
    longer = [str(k) for k in comparison.cutoffs if k > comparison.data.items]
    if longer:
        said.append(
            f"The catalogue has {comparison.data.items:,} items: at the cut-offs "
            f"{', '.join(longer)} lists are shorter, and the missing positions count as misses."
        )
    return said


def _remarks_on_iterations(comparison: Comparison) -> list[str]:
    return [
        f"{r.title}: {r.notes['iterations']} iterations"
        + (
            " until the stopping rule held."
            if r.notes.get("converged", True)
            else ", without meeting the stopping rule."
        )
        for r in comparison.results
        if "iterations" in r.notes
    ]


def failures(comparison: Comparison) -> list[str]:
    """A sentence for each method without a result."""
    failed = [r for r in comparison.results if r.failure]
    return [f"{NO_VALUE} {r.title}: {r.failure.removesuffix('.')}." for r in failed]


def summary(comparison: Comparison) -> str:
    """Return the main metric of every method in one line."""
    c = shown_cutoff(comparison.cutoffs)
    recalls = [
        f"{r.title} {NO_VALUE if r.failure else format(r.means['recall'][c], '.4f')}"
        for r in comparison.results
    ]
    return f"Recall@{comparison.cutoffs[c]}: {', '.join(recalls)}"


def shown_cutoff(cutoffs: Sequence[int]) -> int:
    """Return the position of the cut-off that is nearest to 20."""
    return cutoffs.index(nearest_cutoff(cutoffs))


def scientific(value: float) -> str:
    """Return a number as the paper's tables print it: 5.44×10⁻⁴."""
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def _metrics_cells(result: MethodResult, c: int, k: int, base: MethodResult) -> dict[str, str]:
    """Return a row of the metrics table by column. c: position of the cut-off k."""

    def difference(name: str) -> str:
        if result is base and not result.failure:
            return "reference"
        return _interval(result.differences[name][c]) if result.differences else NO_VALUE

    def mean(name: str) -> str:
        return NO_VALUE if result.failure else f"{result.means[name][c]:.4f}"

    return {
        "method": result.title,
        f"Precision@{k}": mean("precision"),
        f"Recall@{k}": mean("recall"),
        "Δ Recall [95 %]": difference("recall"),
        f"MAP@{k}": mean("map"),
        "Δ MAP [95 %]": difference("map"),
        f"nDCG@{k}": mean("ndcg"),
        f"coverage@{k}": NO_VALUE if result.failure else f"{result.coverage[c]:.3f}",
        f"novelty@{k}, bits": NO_VALUE if result.failure else f"{result.novelty[c]:.2f}",
    }


def _interval(interval: Interval) -> str:
    """Return a difference in thousandths: -4.1 [-5.0, -3.2]."""
    difference, low, high = (
        1000 * value for value in (interval.difference, interval.low, interval.high)
    )
    return f"{difference:+.1f} [{low:+.1f}, {high:+.1f}]"


def _or_dash(result: MethodResult, text: str) -> str:
    return NO_VALUE if result.failure else text


def figure_2(comparison: Comparison) -> tuple[Lines, Lines]:
    """The paper's Figure 2: precision over recall, and MAP at every cut-off.

    One line per method that has a result; the reference is the thick one.
    """
    n, name = f"n = {comparison.n_users:,} users", comparison.data.name
    bold = comparison.result(comparison.reference).title
    means = {r.title: r.means for r in comparison.results if not r.failure}
    precision_recall = {title: (m["recall"], m["precision"]) for title, m in means.items()}
    map_at = {title: (comparison.cutoffs, m["map"]) for title, m in means.items()}
    x, y = f"mean recall@τ ({n})", f"mean precision@τ ({n})"
    at = Axes(
        f"MAP@τ, {name}",
        "cut-off τ, items in the list",
        f"MAP@τ ({n})",
        spaced(comparison.cutoffs),
        log_x=True,
    )
    return (
        Lines(Axes(f"Precision–recall, {name}", x, y, x_from=0.0), precision_recall, bold),
        Lines(at, map_at, bold),
    )
