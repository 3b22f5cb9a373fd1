"""A comparison in tables and sentences; and the paper's Figure 2."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mom_pipeline.comparison.results import Comparison, DataDescription, MethodResult
from mom_pipeline.core.evaluation.metrics import METRICS, nearest_cutoff
from mom_pipeline.pictures import Axes, Lines, spaced

NO_VALUE = "–"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Table:
    """Rows with a caption, for a terminal, a page or Dagster."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    n_texts: int = 1  # columns of text from the left; the others hold numbers

    @classmethod
    def of(cls, caption: str, records: Iterable[Mapping[str, Any]], n_texts: int = 1) -> "Table":
        """Make it of rows by column."""
        listed = list(records)
        rows = tuple(tuple(record.values()) for record in listed)
        return cls(caption, tuple(listed[0]), rows, n_texts)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def description_table(comparison: Comparison) -> Table:
    """The paper's Table 1: what the data are."""
    return Table.of("Description of the data", [described(comparison.data)], n_texts=2)


def described(data: DataDescription) -> dict[str, str]:
    """A row of Table 1; sparsity is the share of cells that are filled."""
    return {
        "Name": data.name,
        "Type": data.kind or NO_VALUE,
        "# of Users": f"{data.users:,}",
        "# of Items": f"{data.items:,}",
        "# of Tuples (training)": f"{data.train_tuples:,}",
        "Sparsity (training)": scientific(data.train_tuples / (data.users * data.items)),
        "# of Tuples (test)": f"{data.test_tuples:,}",
    }


def cost_table(comparison: Comparison) -> Table:
    """What each method took, in a process of its own; a dash for one that did not finish."""

    def row(r: MethodResult) -> dict[str, str]:
        costs = {
            "fit, s": f"{r.fit_seconds:.2f}",
            "lists, s": f"{r.predict_seconds:.2f}",
            "peak memory, MB": f"{r.peak_bytes / 1e6:,.0f}",
        }
        settings = ", ".join(
            f"{name} learnt" if isinstance(value, dict) else f"{name} {value}"
            for name, value in r.settings.items()
        )
        return {
            "method": r.title,
            "choosing, s": f"{r.choice_seconds:.1f}",
            **(dict.fromkeys(costs, NO_VALUE) if r.failure else costs),
            "settings chosen": settings or NO_VALUE,
        }

    lists = f"lists of up to {max(comparison.cutoffs)} for {comparison.n_users:,} users"
    return Table.of(f"Costs: {lists}", map(row, comparison.results))


def metrics_table(comparison: Comparison) -> Table:
    """The main table: metrics at 20, with the differences to the reference and their intervals."""
    base, c = comparison.result(comparison.reference), shown_cutoff(comparison.cutoffs)
    k = comparison.cutoffs[c]

    def at(values: Sequence[float], form: str = ".4f") -> str:
        return format(values[c], form) if values else NO_VALUE

    def difference(r: MethodResult, name: str) -> str:
        if not r.differences:
            return "reference" if r is base and not r.failure else NO_VALUE
        interval = r.differences[name][c]
        ends = interval.difference, interval.low, interval.high
        return "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(1000 * value for value in ends))

    def row(r: MethodResult) -> dict[str, str]:
        precision, recall, mean_ap, ndcg = (at(r.means.get(name, ())) for name in METRICS)
        return {
            "method": r.title,
            f"Precision@{k}": precision,
            f"Recall@{k}": recall,
            "Δ Recall [95 %]": difference(r, "recall"),
            f"MAP@{k}": mean_ap,
            "Δ MAP [95 %]": difference(r, "map"),
            f"nDCG@{k}": ndcg,
            f"coverage@{k}": at(r.coverage, ".3f"),
            f"novelty@{k}, bits": at(r.novelty, ".2f"),
        }

    title = (
        f"{comparison.data.name}: {comparison.n_users:,} users; differences (Δ) to {base.title} "
        "in thousandths"
    )
    return Table.of(title, map(row, comparison.results))


def group_tables(comparison: Comparison) -> list[Table]:
    """NDCG of groups of users and of items, one table for each way to group."""
    kinds = next((r.groups for r in comparison.results if r.groups), {})
    return [
        Table.of(
            f"nDCG@{nearest_cutoff(comparison.cutoffs)} by {kind}",
            (
                {"method": r.title}
                | {g: f"{r.groups[kind][g]:.4f}" if r.groups else NO_VALUE for g in groups}
                for r in comparison.results
            ),
        )
        for kind, groups in kinds.items()
    ]


def remarks(comparison: Comparison) -> list[str]:
    """Sentences that belong below the tables: how it was made, who is missing, what failed."""
    base, items = comparison.result(comparison.reference), comparison.data.items
    seen = "excluded from" if comparison.exclude_seen else "allowed in"
    counts = {
        "without a history": comparison.n_newcomers,
        "who took nothing new": comparison.n_dropped,
    }
    excluded = " and ".join(f"{n:,} {who}" for who, n in counts.items() if n)
    longer = [str(k) for k in comparison.cutoffs if k > items]
    said = {
        f"{comparison.period[:1].upper()}{comparison.period[1:]}.": True,
        f"Users measured: {comparison.n_users:,}; excluded: {excluded or 'none'}. "
        f"Items of the own history are {seen} the lists.": True,
        f"{comparison.n_unknown:,} of the relevant interactions are of items outside of the "
        f"{items:,} trained on: every method misses them.": comparison.n_unknown,
        f"The catalogue has {items:,} items: at the cut-offs {', '.join(longer)} lists are "
        "shorter, and the missing positions count as misses.": longer,
        f"There are no differences, because the reference {base.title} has no result.": (
            base.failure
        ),
    }
    iterations = [
        f"{r.title}: {r.notes['iterations']} iterations, "
        f"{'until' if r.notes.get('converged', True) else 'without meeting'} the stopping rule."
        for r in comparison.results
        if "iterations" in r.notes
    ]
    return [*(text for text, holds in said.items() if holds), *iterations, *failures(comparison)]


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


def figure_2(comparison: Comparison) -> tuple[Lines, Lines]:
    """The paper's Figure 2: precision over recall, and MAP at every cut-off; reference thick."""
    n, name = f"n = {comparison.n_users:,} users", comparison.data.name
    bold = comparison.result(comparison.reference).title
    means = {r.title: r.means for r in comparison.results if not r.failure}
    precision_recall = {title: (m["recall"], m["precision"]) for title, m in means.items()}
    map_at = {title: (comparison.cutoffs, m["map"]) for title, m in means.items()}
    x, y = f"mean recall@τ ({n})", f"mean precision@τ ({n})"
    cutoffs, ticks = "cut-off τ, items in the list", spaced(comparison.cutoffs)
    at = Axes(f"MAP@τ, {name}", cutoffs, f"MAP@τ ({n})", ticks, log_x=True)
    return (
        Lines(Axes(f"Precision–recall, {name}", x, y, x_from=0.0), precision_recall, bold),
        Lines(at, map_at, bold),
    )
