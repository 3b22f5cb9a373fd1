"""The page of a day: its sentence and its figures, rendered and written below the data folder.

Ids and file names are other people's text: the templates escape all of it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mom_pipeline.comparison.tables import remarks
from mom_pipeline.core.evaluation.stability import MIN_AGREEMENT
from mom_pipeline.core.files import write_text
from mom_pipeline.pictures.svg import data_url
from mom_pipeline.report.data import NothingToReport, ReportData, gather
from mom_pipeline.report.sections import delivered, newest_recall, sections
from mom_pipeline.serving.registry import UNUSABLE, ModelRegistry
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.lists import MetricsRow

_PAGES = "[0-9]*-[0-9]*-[0-9]*.html"
# A component that moves farther in a day, in total variation, is not settled.
_MUCH_DRIFT, _MANY_REJECTED = 0.1, 0.05
_TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}


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
        remarks=remarks(data.comparison) if data.comparison else [],
        median_entropy=float(np.median(data.entropy)),
        most_entropy=float(np.log2(max(len(data.components), 1))),
        deliveries=delivered(data.deliveries),
        n_delivery_days=len({entry.delivery_day for entry in data.deliveries}),
    )


def _key_figures(data: ReportData) -> dict[str, str]:
    """Return the figures at the top of the page: what it is -> its value."""
    own, shown = data.figures.days[-1], {}
    if data.metrics:
        k, recall = newest_recall(data.metrics)
        beside = f"popularity {recall['popularity']:.3f}" if "popularity" in recall else ""
        shown[f"Recall@{k}; {beside}"] = f"{next(iter(recall.values())):.3f}"
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
    recall = newest_recall(rows)[1] if rows else {}
    popular = recall.pop("popularity", 0.0)
    return next(iter(recall.values())) / popular if popular and recall else float("nan")


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
