"""Figures and tables of each section of the page; the sentences are in the templates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from mom_pipeline.comparison.tables import (
    cost_table,
    description_table,
    figure_2,
    metrics_table,
)
from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.logs.ledger import LedgerEntry
from mom_pipeline.pictures.charts import (
    Bars,
    Chart,
    Lines,
    bars,
    curves,
    histogram,
    stacked_bars,
    xy_curves,
)
from mom_pipeline.report.data import DayHistory, ReportData
from mom_pipeline.warehouse.evaluations import MetricsRow

_DELIVERY_DAYS = 31
TREND_DAYS = 60
_SHOWN_REASONS = 10
_METRICS = {"Precision": "precision", "Recall": "recall", "MAP": "map", "nDCG": "ndcg"}
_SHOWN_SETTINGS = (
    "pipeline",
    "logs",
    "matrix",
    "model",
    "rebuild",
    "serving",
    "evaluation",
    "comparison",
)
_BOUND_MEANINGS = {
    "mu_bound": "bound of the error of a column of O",
    "pi_bound": "bound of the error of a weight in pi",
    "n1": "users required, first premise",
    "n2": "users required, second premise",
    "n3": "users required, third premise",
    "n_users": "users present",
    "d1s": "mean of the items per user",
    "d2s": "mean of their squares",
    "d3s": "mean of their cubes",
    "sigma_1": "largest eigenvalue of M2",
    "sigma_k": "smallest eigenvalue that is used",
    "delta": "probability that the bounds may fail with",
}


@dataclass(frozen=True)
class Picture:
    """A figure and its description for those who cannot see it."""

    figure: Chart
    description: str


@dataclass(frozen=True)
class Table:
    """Rows with a caption. n_texts: columns of text from the left; the others hold numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    n_texts: int = 1


@dataclass(frozen=True)
class Section:
    """The pictures and the tables of a section, in the order in which its template shows them."""

    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


def sections(data: ReportData) -> dict[str, Section | None]:
    """Return every section by its anchor; None where there is nothing to show yet."""
    return {
        "evaluation": _evaluation(data) if data.metrics else None,
        "comparison": _comparison(data),
        "components": Section(
            [Picture(agreement_figure(data), "Split-half agreement of every component")]
        ),
        "moments": _moments(data),
        "drift": _drift(data),
        "posteriors": _posteriors(data),
        "bounds": _bounds(data),
        "data": _deliveries(data),
        "origin": _origin(data),
    }


def newest_by_ranking(rows: Sequence[MetricsRow]) -> dict[str, list[MetricsRow]]:
    """Return the rows of the newest evaluation by ranking, the model's before popularity."""
    newest = [row for row in rows if row.day == rows[-1].day]
    names = dict.fromkeys(row.ranking for row in newest)
    ordered = sorted(names, key=lambda name: name == "popularity")
    return {name: [row for row in newest if row.ranking == name] for name in ordered}


def shown_cutoff(rows: Sequence[MetricsRow]) -> int:
    """Return the cut-off of figures that have only one."""
    return nearest_cutoff(sorted({row.cutoff for row in rows}))


def _evaluation(data: ReportData) -> Section:
    """The model of some days ago on what was delivered since, beside popularity."""
    by_ranking = newest_by_ranking(data.metrics)
    first = next(iter(by_ranking.values()))
    n = f"n = {first[0].users:,} users"
    precision_recall = xy_curves(
        {
            name: ([r.recall for r in rows], [r.precision for r in rows])
            for name, rows in by_ranking.items()
        },
        title="Precision and recall at every cut-off",
        x=f"mean recall ({n})",
        y=f"mean precision ({n})",
    )
    map_at = curves(
        [row.cutoff for row in first],
        {name: [r.map for r in rows] for name, rows in by_ranking.items()},
        title="MAP at every cut-off",
        x_label="cut-off, items in the list",
        y=f"MAP ({n})",
    )
    return Section(
        [
            Picture(precision_recall, "Precision against recall, model and popularity"),
            Picture(map_at, "MAP at every cut-off, model and popularity"),
            _recall_trend(data.metrics, list(by_ranking)),
        ],
        [_metrics_table(by_ranking)],
    )


def _metrics_table(by_ranking: Mapping[str, Sequence[MetricsRow]]) -> Table:
    """One line for each cut-off; the rankings side by side under every metric."""
    columns = [f"{metric}, {name}" for metric in _METRICS for name in by_ranking]
    rows = [
        (at[0].cutoff, *(f"{getattr(row, key):.4f}" for key in _METRICS.values() for row in at))
        for at in zip(*by_ranking.values(), strict=True)
    ]
    n_users = next(iter(by_ranking.values()))[0].users
    return Table(f"Means over {n_users:,} users", ["cut‑off", *columns], rows, n_texts=0)


def _recall_trend(rows: Sequence[MetricsRow], rankings: Sequence[str]) -> Picture:
    """Recall at the cut-off nearest to 20, of the newest days."""
    k = shown_cutoff(rows)
    days = sorted({row.day for row in rows})[-TREND_DAYS:]
    recall = {(row.ranking, row.day): row.recall for row in rows if row.cutoff == k}
    figure = curves(
        [f"{day:%m-%d}" for day in days],
        {name: [recall.get((name, day), float("nan")) for day in days] for name in rankings},
        title=f"Recall@{k} by day",
        x_label=f"last day of the test (n = {len(days)})",
        y=f"mean recall@{k}",
    )
    return Picture(figure, f"Recall at {k} over the days, model and popularity")


def _comparison(data: ReportData) -> Section | None:
    """The newest comparison up to the day."""
    if data.comparison is None:
        return None
    precision_recall, map_at = figure_2(data.comparison)
    made = [
        (metrics_table(data.comparison), 1),
        (description_table(data.comparison), 2),
        (cost_table(data.comparison), 1),
    ]
    return Section(
        [
            Picture(precision_recall, "Precision against recall, one line for each method"),
            Picture(map_at, "MAP at every cut-off, one line for each method"),
        ],
        [Table(table.title, table.columns, table.rows, n_texts) for table, n_texts in made],
    )


def agreement_figure(data: ReportData) -> Bars:
    """Return a figure with one bar for every component, those below the threshold marked."""
    return bars(
        [component.agreement for component in data.components],
        title="Agreement of two halves of the users",
        x="component",
        y="cosine, 0 to 1",
        below=data.settings.evaluation.min_agreement,
    )


def _moments(data: ReportData) -> Section:
    """Eigenvalues of the second moment, and the weights of the components."""
    spectrum = bars(
        data.spectrum,
        title=f"Eigenvalues of M2; the first {len(data.components)} are whitened",
        x="number of the eigenvalue",
        y="eigenvalue, log scale",
        log=True,
    )
    weights = bars(
        [component.weight for component in data.components],
        title="π, the weights of the components",
        x="component",
        y="P[component], a probability",
    )
    return Section(
        [
            Picture(spectrum, "Eigenvalues of the second moment, largest first"),
            Picture(weights, "Weight of every component"),
        ]
    )


def _drift(data: ReportData) -> Section:
    """How the model moved from day to day, and how firm it was."""
    days = data.history[-TREND_DAYS:]
    drift = _by_day(
        days,
        "Largest drift of a component since the day before",
        "total variation, 0 to 1",
        {"largest drift": "largest_drift"},
    )
    agreement = _by_day(
        days,
        "Agreement of two halves of the users",
        "cosine, 0 to 1",
        {"mean, weighted by π": "mean_agreement", "lowest": "lowest_agreement"},
    )
    users = _by_day(
        days,
        "Users that a day visited for its moments",
        "users",
        {"changed": "changed_users", "all": "users"},
    )
    return Section(
        [
            Picture(drift, "Largest drift of a component by day"),
            Picture(agreement, "Split-half agreement by day"),
            Picture(users, "Changed users by day"),
        ]
    )


def _by_day(days: Sequence[DayHistory], title: str, y: str, fields: Mapping[str, str]) -> Lines:
    """Draw fields of the days. fields: label of a line -> field."""
    labels = [f"{entry.day:%m-%d}" for entry in days]
    lines = {label: [getattr(day, name) for day in days] for label, name in fields.items()}
    return curves(labels, lines, title=title, x_label=f"day (n = {len(days)})", y=y)


def _posteriors(data: ReportData) -> Section | None:
    """How sure the model is about its users."""
    if data.entropy is None or len(data.entropy) == 0:
        return None
    figure = histogram(data.entropy, title="Entropy of P[component | user]", x="entropy, bits")
    return Section([Picture(figure, "Histogram of the entropy of the users' posteriors")])


def _bounds(data: ReportData) -> Section | None:
    """Theorem 1 as numbers, for a model that it is about."""
    if data.bounds is None:
        return None
    bounds = asdict(data.bounds)
    rows = [(name, meaning, f"{bounds[name]:,.4g}") for name, meaning in _BOUND_MEANINGS.items()]
    return Section((), [Table("The theorem on this model", ["", "meaning", "value"], rows, 2)])


def _deliveries(data: ReportData) -> Section:
    """Files, rows and rejects of the newest days."""
    days = [
        (day, delivered(list(files)))
        for day, files in groupby(data.deliveries, key=lambda entry: entry.delivery_day)
    ][-_DELIVERY_DAYS:]
    figure = stacked_bars(
        [f"{day:%m-%d}" for day, _ in days],
        {
            "accepted": [counts[1] for _, counts in days],
            "rejected or set aside": [counts[2] for _, counts in days],
        },
        title="Rows delivered",
        x_label=f"delivery day (n = {len(days)})",
        y="rows",
    )
    columns = ["delivery day", "files", "rows accepted", "rejected", "of these set aside", "bytes"]
    rows = [(day, *counts) for day, counts in reversed(days)]
    tables = [Table(f"Deliveries, the newest {len(days)} days", columns, rows)]
    reasons: Counter[str] = Counter()
    for entry in data.deliveries:
        reasons.update(entry.reject_reasons)
    if reasons:
        most = reasons.most_common(_SHOWN_REASONS)
        tables.append(Table("Why rows were not taken", ["reason", "rows"], most))
    return Section([Picture(figure, "Rows accepted and rejected by delivery day")], tables)


def delivered(files: Sequence[LedgerEntry]) -> tuple[int, int, int, int, int]:
    """Return the numbers of files, rows accepted, rejected, set aside, and bytes."""
    return (
        len(files),
        sum(entry.rows_accepted for entry in files),
        sum(entry.rows_rejected for entry in files),
        sum(entry.rows_set_aside for entry in files),
        sum(entry.size_bytes for entry in files),
    )


def _origin(data: ReportData) -> Section:
    """Settings, versions and the seconds of every asset, if these are known."""
    settings = [
        entry
        for name in _SHOWN_SETTINGS
        for entry in _flat(name, asdict(getattr(data.settings, name)))
    ]
    tables = [
        Table("Settings", ["key", "value"], settings, 2),
        Table("Versions", ["", "version"], list(data.versions.items()), 2),
    ]
    if data.seconds:
        seconds = {**data.seconds, "together": sum(data.seconds.values())}
        rows = [(asset, f"{value:.2f}") for asset, value in seconds.items()]
        tables.append(Table(f"Seconds of {data.day}", ["asset", "seconds"], rows))
    return Section((), tables)


def _flat(prefix: str, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return dotted keys and their values as the settings file has them."""
    entries: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            entries += _flat(f"{prefix}.{key}", value)
        else:
            text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            entries.append((f"{prefix}.{key}", text or "–"))
    return entries
