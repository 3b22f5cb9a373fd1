"""The page of a day: its sentence and its figures, rendered and written below the data folder.

Ids and file names are other people's text: the templates escape all of it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mom_pipeline.comparison import tables
from mom_pipeline.comparison.tables import Table
from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.core.evaluation.stability import MIN_AGREEMENT
from mom_pipeline.core.files import write_text
from mom_pipeline.logs.ledger import LedgerEntry
from mom_pipeline.pictures import Chart, bars, curves, data_url, histogram, stacked_bars, xy_curves
from mom_pipeline.report.data import NothingToReport, ReportData, gather
from mom_pipeline.serving.lists import evaluated_days
from mom_pipeline.serving.rates import Rate
from mom_pipeline.serving.registry import UNUSABLE, ModelRegistry
from mom_pipeline.serving.served_model import TREND_DAYS, FitFigures
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.lists import MetricsRow

_PAGES = "[0-9]*-[0-9]*-[0-9]*.html"
# A component that moves farther in a day, in total variation, is not settled.
_MUCH_DRIFT, _MANY_REJECTED = 0.1, 0.05
_TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}
_DELIVERY_DAYS, _SHOWN_REASONS = 31, 10
_METRICS = {"Precision": "precision", "Recall": "recall", "MAP": "map", "nDCG": "ndcg"}
_SHOWN_SETTINGS = ("pipeline", "logs", "matrix", "model", "rebuild", "serving", "evaluation")


@dataclass(frozen=True)
class WrittenPage:
    """A page on the disk. data: None where it says alone why there is nothing to show."""

    path: Path
    data: ReportData | None
    problem: str = ""


def report_path(settings: Settings, day: date) -> Path:
    """Return where the page of a day is, or would be."""
    return settings.reports_dir / f"{day.isoformat()}.html"


def newest_day(settings: Settings) -> date:
    """Return the newest day with a model. Raises NothingToReport when there is none."""
    names = ModelRegistry(settings.models_dir).names()
    if not names:
        raise NothingToReport(
            f"{settings.data_dir} has no model of any day yet; put log files into "
            f"{settings.logs_dir} and run `mom-pipeline update`, or try `mom-pipeline demo`"
        )
    return date.fromisoformat(names[-1][:10])


def write_report(settings: Settings, day: date) -> WrittenPage:
    """Write the page of a day, whole or not at all; where there is no model, it says why."""
    path, folder = report_path(settings, day), settings.reports_dir
    try:
        data = gather(settings, day)
        written, text = WrittenPage(path, data), render(data)
    except (NothingToReport, *UNUSABLE) as reason:
        written = WrittenPage(path, None, str(reason))
        text = filled("nothing.html", day=day, reason=str(reason))
    write_text(path, text)
    days = sorted((page.stem for page in folder.glob(_PAGES)), reverse=True)
    write_text(folder / "index.html", filled("index.html", days=days))
    return written


def render(data: ReportData) -> str:
    """The HTML of the page."""
    return filled(
        "page.html",
        data=data,
        figures=data.figures,
        settings=data.settings,
        min_agreement=MIN_AGREEMENT,
        verdict=verdict(data),
        sections=sections(data),
        key_figures=_key_figures(data),
        evaluated=data.metrics[-1] if data.metrics else None,
        remarks=tables.remarks(data.comparison) if data.comparison else [],
        median_entropy=float(np.median(data.entropy)),
        most_entropy=float(np.log2(max(len(data.components), 1))),
        deliveries=delivered(data.deliveries),
        n_delivery_days=len({entry.delivery_day for entry in data.deliveries}),
    )


def _key_figures(data: ReportData) -> dict[str, str]:
    """Return the figures at the top of the page: what it is -> its value."""
    own, shown = data.figures.days[-1], {}
    for last in evaluated_days(data.metrics)[-1:]:
        shown[f"Recall@{last.cutoff}; popularity {last.popularity:.3f}"] = f"{last.recall:.3f}"
    return {
        **shown,
        "users": f"{data.n_users:,}",
        "items": f"{data.n_items:,}",
        "components": f"{len(data.components)}",
        f"agreement of halves, mean; lowest {min(own.agreement):.2f}": f"{own.mean_agreement:.2f}",
        "largest drift since the day before": f"{max(own.drift):.3f}",
    }


def verdict(data: ReportData) -> str:
    """The page in one sentence: how good, how stable, what to do."""
    days, n, tasks = data.figures.days, len(data.components), []
    weak = sum(component.agreement < MIN_AGREEMENT for component in data.components)
    moved = max(days[-1].drift) if len(days) > 1 else 0.0
    stability = f"{weak} of {n} components are uncertain" if weak else "stable"
    if moved > _MUCH_DRIFT:
        stability = f"a component moved by {moved:.0%} in a day"
    if hit_ratio(data.metrics) < 0.95:
        tasks.append("see `mom-pipeline tune`")
    _, accepted, rejected, _, _ = delivered(data.deliveries)
    if rejected > _MANY_REJECTED * (accepted + rejected):
        share = rejected / (accepted + rejected)
        tasks.append(f"look at the {share:.0%} of the rows that were rejected")
    if 2 * weak > n:
        tasks.append("take fewer components, or wait for more days, before you read them")
    text = f"{hits(data.metrics)}; {stability}; {'; '.join(tasks) or 'nothing to do'}."
    return text[:1].upper() + text[1:]


def hits(rows: Sequence[MetricsRow]) -> str:
    """What people took of the lists, compared with a list of popular items."""
    ratio = hit_ratio(rows)
    if np.isnan(ratio):
        return "not evaluated yet, for want of later days"
    if ratio < 0.95:
        return f"only {ratio:.0%} of the hits of popularity"
    if ratio < 1.05:
        return "as many hits as popularity"
    whole = round(ratio)
    if abs(ratio - whole) <= 0.1 * whole and whole >= 2:
        return f"{_TIMES.get(whole, f'{whole} times')} the hits of popularity"
    return f"{ratio:.1f} times the hits of popularity"


def hit_ratio(rows: Sequence[MetricsRow]) -> float:
    """Recall of the newest backtest over that of popularity; NaN without one."""
    last = evaluated_days(rows)[-1:]
    return last[0].recall / last[0].popularity if last and last[0].popularity else float("nan")


def filled(template: str, **values: Any) -> str:
    """A page of its template."""
    return environment().get_template(template).render(**values)


@cache
def environment() -> Environment:
    """Return the templates: escaping, and refusing names that do not exist."""
    templates = Environment(
        loader=PackageLoader("mom_pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"shown": shown, "prose": prose, "svg": data_url}
    css = (files("mom_pipeline.report") / "page.css").read_text(encoding="utf-8")
    templates.globals["stylesheet"] = Markup(css)  # noqa: S704 - a file of this package
    return templates


def shown(value: object) -> str:
    """Return a value for a cell or a sentence: thousands separated, days not broken apart."""
    if isinstance(value, date):
        return Markup('<span class="date">{}</span>').format(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def prose(text: str) -> Markup:
    """Return text with code between backticks and days that are not broken across lines."""
    # A Markup would be escaped again.
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    marked = re.sub(r"\b\d{4}-\d\d-\d\d\b", r'<span class="date">\g<0></span>', marked)
    return Markup(marked)  # noqa: S704 - escaped above


@dataclass(frozen=True)
class Section:
    """The charts and the tables of a section, in the order in which its template shows them."""

    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


def sections(data: ReportData) -> dict[str, Section | None]:
    """Return every section by its anchor; None where there is nothing to show yet."""
    parts, K = data.components, len(data.components)
    halves = "Agreement of two halves of the users", "component", "cosine, 0 to 1"
    agreement = bars([part.agreement for part in parts], *halves, below=MIN_AGREEMENT)
    entropy = histogram(data.entropy, "Entropy of P[component | user]", "entropy, bits")
    title = f"Eigenvalues of M2; the first {K} are whitened"
    axes = title, "number of the eigenvalue", "eigenvalue, log scale"
    spectrum = bars(data.figures.spectrum, *axes, log=True)
    axes = "π, the weights of the components", "component", "P[component], a probability"
    pi = bars([part.weight for part in parts], *axes)
    return {
        "evaluation": _evaluation(data.metrics) if data.metrics else None,
        "comparison": _comparison(data),
        "shown": _shown(data.shown) if data.shown else None,
        "components": Section([agreement, entropy]),
        "moments": Section([spectrum, pi]),
        "drift": _drift(data.figures.days),
        "data": _deliveries(data.deliveries),
        "origin": _origin(data),
    }


def _newest(rows: Sequence[MetricsRow]) -> dict[str, list[MetricsRow]]:
    """The rows of the newest evaluation by ranking, the model's before popularity."""
    newest = [row for row in rows if row.day == rows[-1].day]
    names = sorted({row.ranking for row in newest}, key=lambda name: name == "popularity")
    return {name: [row for row in newest if row.ranking == name] for name in names}


def _evaluation(rows: Sequence[MetricsRow]) -> Section:
    """The model of some days ago on what was delivered since, beside popularity."""
    newest, k = _newest(rows), nearest_cutoff(sorted({row.cutoff for row in rows}))
    first = next(iter(newest.values()))
    n = f"n = {first[0].users:,} users"
    points = {
        name: ([r.recall for r in of], [r.precision for r in of]) for name, of in newest.items()
    }
    labels = f"mean recall ({n})", f"mean precision ({n})"
    precision_recall = xy_curves(points, "Precision and recall at every cut-off", *labels)
    days = sorted({row.day for row in rows})[-TREND_DAYS:]
    known = {(row.ranking, row.day): row.recall for row in rows if row.cutoff == k}
    recalls = {name: [known.get((name, day), float("nan")) for day in days] for name in newest}
    labels = f"last day of the test (n = {len(days)})", f"mean recall@{k}"
    by_day = curves([f"{day:%m-%d}" for day in days], recalls, f"Recall@{k} by day", *labels)
    columns = [f"{metric}, {name}" for metric in _METRICS for name in newest]
    cells = tuple(
        (at[0].cutoff, *(f"{getattr(row, key):.4f}" for key in _METRICS.values() for row in at))
        for at in zip(*newest.values(), strict=True)
    )
    table = Table(f"Means ({n})", ("cut‑off", *columns), cells, n_texts=0)
    return Section([by_day, precision_recall], [table])


def _comparison(data: ReportData) -> Section | None:
    """The newest comparison up to the day."""
    if data.comparison is None:
        return None
    made = (tables.metrics_table, tables.description_table, tables.cost_table)
    return Section(tables.figure_2(data.comparison), [table(data.comparison) for table in made])


def _shown(rates: Sequence[Rate]) -> Section:
    """How often people took what they were shown."""
    by_day = {(rate.of, rate.type): rate.share for rate in rates if rate.by == "day"}
    days = sorted({day for day, _ in by_day})
    kinds = sorted({kind for _, kind in by_day})
    series = {kind: [by_day.get((day, kind), float("nan")) for day in days] for kind in kinds}
    labels = f"day (n = {len(days)})", "share taken of what was shown"
    chart = curves([day[5:] for day in days], series, "Taken of what was shown, by day", *labels)
    columns = ("", "event", "shown", "taken", "share", "from", "to")
    cells = tuple(
        (
            f"{rate.by} {rate.of}",
            rate.type,
            rate.shown,
            rate.taken,
            *(f"{share:.2%}" for share in (rate.share, rate.low, rate.high)),
        )
        for rate in rates
    )
    return Section([chart], [Table("Taken of what was shown", columns, cells, n_texts=2)])


def _drift(days: Sequence[FitFigures]) -> Section:
    """How the model moved from day to day, and how firm it was."""
    labels, x = [day.day[5:] for day in days], f"day (n = {len(days)})"
    drift = {"largest drift": [max(day.drift) for day in days]}
    agreement = {
        "mean, weighted by π": [day.mean_agreement for day in days],
        "lowest": [min(day.agreement) for day in days],
    }
    shown = (
        ("Largest drift of a component since the day before", "total variation, 0 to 1", drift),
        ("Agreement of two halves of the users, by day", "cosine, 0 to 1", agreement),
    )
    return Section([curves(labels, s, title=title, x_label=x, y=y) for title, y, s in shown])


def _deliveries(entries: Sequence[LedgerEntry]) -> Section:
    """Files, rows and rejects of the newest days."""
    by_day = groupby(entries, key=lambda entry: entry.delivery_day)
    days = [(day, delivered(list(files))) for day, files in by_day][-_DELIVERY_DAYS:]
    counts = {"accepted": 1, "rejected or set aside": 2}
    layers = {name: [of[column] for _, of in days] for name, column in counts.items()}
    labels, n = [f"{day:%m-%d}" for day, _ in days], f"delivery day (n = {len(days)})"
    chart = stacked_bars(labels, layers, "Rows accepted and rejected", n, "rows")
    columns = ("delivery day", "files", "rows accepted", "rejected", "of these set aside", "bytes")
    rows = tuple((day, *counts) for day, counts in reversed(days))
    shown = [Table(f"Deliveries, the newest {len(days)} days", columns, rows)]
    reasons = sum((Counter(entry.reject_reasons) for entry in entries), Counter[str]())
    if reasons:
        most = tuple(reasons.most_common(_SHOWN_REASONS))
        shown.append(Table("Why rows were not ingested", ("reason", "rows"), most))
    return Section([chart], shown)


def delivered(files: Sequence[LedgerEntry]) -> tuple[int, ...]:
    """Return the numbers of files, rows accepted, rejected, set aside, and bytes."""
    counted = ("rows_accepted", "rows_rejected", "rows_set_aside", "size_bytes")
    return len(files), *(sum(getattr(entry, name) for entry in files) for name in counted)


def _origin(data: ReportData) -> Section:
    """The settings of the folder, those that the model was made with, and versions."""
    chosen = {name: asdict(getattr(data.settings, name)) for name in _SHOWN_SETTINGS}
    settings = tuple(_flat({**chosen, "model": data.manifest.settings}))
    return Section(
        tables=[
            Table("Settings", ("key", "value"), settings, n_texts=2),
            Table("Versions", ("", "version"), tuple(data.versions.items()), n_texts=2),
        ]
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and their values as the settings file has them."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            yield f"{prefix}{key}", text or "–"
