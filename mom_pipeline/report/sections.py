"""Charts and tables of each section of the page; the sentences are in the templates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from mom_pipeline.comparison import tables
from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.core.evaluation.stability import MIN_AGREEMENT
from mom_pipeline.logs.ledger import LedgerEntry
from mom_pipeline.pictures.charts import (
    Chart,
    Lines,
    bars,
    curves,
    histogram,
    stacked_bars,
    xy_curves,
)
from mom_pipeline.report.data import ReportData
from mom_pipeline.serving.served_model import TREND_DAYS, FitFigures
from mom_pipeline.warehouse.evaluations import MetricsRow

_DELIVERY_DAYS, _SHOWN_REASONS = 31, 10
_METRICS = {"Precision": "precision", "Recall": "recall", "MAP": "map", "nDCG": "ndcg"}
_SHOWN_SETTINGS = ("pipeline", "logs", "matrix", "model", "rebuild", "serving", "evaluation")


@dataclass(frozen=True)
class PageTable:
    """Rows with a caption. n_texts: columns of text from the left; the others hold numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    n_texts: int = 1


@dataclass(frozen=True)
class Section:
    """The charts and the tables of a section, in the order in which its template shows them."""

    charts: Sequence[Chart] = ()
    tables: Sequence[PageTable] = ()


def sections(data: ReportData) -> dict[str, Section | None]:
    """Return every section by its anchor; None where there is nothing to show yet."""
    agreement = bars(
        [component.agreement for component in data.components],
        title="Agreement of two halves of the users",
        x="component",
        y="cosine, 0 to 1",
        below=MIN_AGREEMENT,
    )
    entropy = histogram(data.entropy, title="Entropy of P[component | user]", x="entropy, bits")
    return {
        "evaluation": _evaluation(data) if data.metrics else None,
        "comparison": _comparison(data),
        "components": Section([agreement]),
        "moments": _moments(data),
        "drift": _drift(data.figures.days),
        "posteriors": Section([entropy]),
        "data": _deliveries(data),
        "origin": _origin(data),
    }


def newest_by_ranking(rows: Sequence[MetricsRow]) -> dict[str, list[MetricsRow]]:
    """Return the rows of the newest evaluation by ranking, the model's before popularity."""
    newest = [row for row in rows if row.day == rows[-1].day]
    names = dict.fromkeys(row.ranking for row in newest)
    ordered = sorted(names, key=lambda name: name == "popularity")
    return {name: [row for row in newest if row.ranking == name] for name in ordered}


def newest_recall(rows: Sequence[MetricsRow]) -> tuple[int, dict[str, float]]:
    """Return the cut-off that is shown, and the newest recall at it by ranking."""
    k = nearest_cutoff(sorted({row.cutoff for row in rows}))
    rankings = newest_by_ranking(rows)
    return k, {n: next(r.recall for r in same if r.cutoff == k) for n, same in rankings.items()}


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
    columns = [f"{metric}, {name}" for metric in _METRICS for name in by_ranking]
    rows = [
        (at[0].cutoff, *(f"{getattr(row, key):.4f}" for key in _METRICS.values() for row in at))
        for at in zip(*by_ranking.values(), strict=True)
    ]
    table = PageTable(f"Means ({n})", ["cut‑off", *columns], rows, n_texts=0)
    return Section([precision_recall, map_at, _recall_by_day(data.metrics)], [table])


def _recall_by_day(rows: Sequence[MetricsRow]) -> Lines:
    k, rankings = newest_recall(rows)
    days = sorted({row.day for row in rows})[-TREND_DAYS:]
    recall = {(row.ranking, row.day): row.recall for row in rows if row.cutoff == k}
    return curves(
        [f"{day:%m-%d}" for day in days],
        {name: [recall.get((name, day), float("nan")) for day in days] for name in rankings},
        title=f"Recall@{k} by day",
        x_label=f"last day of the test (n = {len(days)})",
        y=f"mean recall@{k}",
    )


def _comparison(data: ReportData) -> Section | None:
    """The newest comparison up to the day."""
    if data.comparison is None:
        return None
    made = [
        (tables.metrics_table(data.comparison), 1),
        (tables.description_table(data.comparison), 2),
        (tables.cost_table(data.comparison), 1),
    ]
    return Section(
        tables.figure_2(data.comparison),
        [PageTable(table.title, table.columns, table.rows, n_texts) for table, n_texts in made],
    )


def _moments(data: ReportData) -> Section:
    """Eigenvalues of the second moment, and the weights of the components."""
    spectrum = bars(
        data.figures.spectrum,
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
    return Section([spectrum, weights])


def _drift(days: Sequence[FitFigures]) -> Section:
    """How the model moved from day to day, and how firm it was."""
    labels, x = [day.day[5:] for day in days], f"day (n = {len(days)})"
    drift = {"largest drift": [max(day.drift) for day in days]}
    agreement = {
        "mean, weighted by π": [day.mean_agreement for day in days],
        "lowest": [min(day.agreement) for day in days],
    }
    users = {"changed": [day.changed_users for day in days], "all": [day.users for day in days]}
    shown = (
        ("Largest drift of a component since the day before", "total variation, 0 to 1", drift),
        ("Agreement of two halves of the users, by day", "cosine, 0 to 1", agreement),
        ("Users that a day visited for its moments", "users", users),
    )
    return Section([curves(labels, s, title=title, x_label=x, y=y) for title, y, s in shown])


def _deliveries(data: ReportData) -> Section:
    """Files, rows and rejects of the newest days."""
    days = [
        (day, delivered(list(files)))
        for day, files in groupby(data.deliveries, key=lambda entry: entry.delivery_day)
    ][-_DELIVERY_DAYS:]
    chart = stacked_bars(
        [f"{day:%m-%d}" for day, _ in days],
        {
            "accepted": [counts[1] for _, counts in days],
            "rejected or set aside": [counts[2] for _, counts in days],
        },
        title="Rows accepted and rejected",
        x_label=f"delivery day (n = {len(days)})",
        y="rows",
    )
    columns = ["delivery day", "files", "rows accepted", "rejected", "of these set aside", "bytes"]
    rows = [(day, *counts) for day, counts in reversed(days)]
    shown = [PageTable(f"Deliveries, the newest {len(days)} days", columns, rows)]
    reasons = sum((Counter(entry.reject_reasons) for entry in data.deliveries), Counter[str]())
    if reasons:
        most = reasons.most_common(_SHOWN_REASONS)
        shown.append(PageTable("Why rows were not ingested", ["reason", "rows"], most))
    return Section([chart], shown)


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
    """The settings of the folder, those that the model was made with, and versions."""
    sections = {name: asdict(getattr(data.settings, name)) for name in _SHOWN_SETTINGS}
    sections["model"] = data.manifest.settings
    settings = [entry for name, values in sections.items() for entry in _flat(name, values)]
    return Section(
        (),
        [
            PageTable("Settings", ["key", "value"], settings, 2),
            PageTable("Versions", ["", "version"], list(data.versions.items()), 2),
        ],
    )


def _flat(prefix: str, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return dotted keys and their values as the settings file has them."""
    entries: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            entries += _flat(f"{prefix}.{key}", value)
        else:
            text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            entries.append((f"{prefix}.{key}", text or "–"))
    return entries
