"""The page of a day: rendered from the templates, written below the data folder.

Ids and file names are other people's text: the templates escape all of it.
"""

import re
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mom_pipeline.artifacts.day_artifacts import Expired, StaleArtifact, TooLittleYet
from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.comparison.tables import remarks
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import write_text
from mom_pipeline.pictures.svg import data_url
from mom_pipeline.report.data import ReportData, gather
from mom_pipeline.report.sections import (
    TREND_DAYS,
    delivered,
    newest_by_ranking,
    sections,
    shown_cutoff,
)
from mom_pipeline.report.words import verdict
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.evaluations import MetricsRow

_PAGES = "[0-9]*-[0-9]*-[0-9]*.html"


class NothingToReport(MomError):
    """There is no model of the day."""


def report_path(settings: Settings, day: date) -> Path:
    """Return where the page of a day is, or would be."""
    return settings.reports_dir / f"{day.isoformat()}.html"


def newest_day(settings: Settings) -> date:
    """Return the newest day with a model. Raises NothingToReport when there is none."""
    days = DayState(settings).artifacts.days("decomposition")
    if not days:
        raise NothingToReport(
            f"{settings.data_dir} has no model of any day yet; put log files into "
            f"{settings.logs_dir} and run `mom-pipeline update`, or try `mom-pipeline demo`"
        )
    return days[-1]


def write_report(settings: Settings, day: date) -> tuple[Path, ReportData]:
    """Write the page of a day, whole or not at all; return its path and its data."""
    try:
        data = gather(settings, day)
    except TooLittleYet:
        raise
    except Expired as reason:
        raise NothingToReport(
            f"{reason}; `mom-pipeline backfill --from {day} --to {day}` computes that day again"
        ) from reason
    except StaleArtifact as reason:
        newest = newest_day(settings)
        raise NothingToReport(
            f"there is no model of {day} to report on: {reason}; the newest is of {newest}, and "
            "`mom-pipeline update` computes every day of the logs that is missing or stale"
        ) from reason
    path = report_path(settings, day)
    write_text(path, render(data))
    _write_index(settings)
    return path, data


def remove_report(settings: Settings, day: date) -> None:
    """Remove a page that no longer shows the model of its day."""
    path = report_path(settings, day)
    if path.exists():
        path.unlink()
        _write_index(settings)


def _write_index(settings: Settings) -> None:
    """Write the list of all pages, the newest first."""
    days = sorted((path.stem for path in settings.reports_dir.glob(_PAGES)), reverse=True)
    page = environment().get_template("index.html").render(days=days)
    write_text(settings.reports_dir / "index.html", page)


def render(data: ReportData) -> str:
    """Return the HTML of the page."""
    return (
        environment()
        .get_template("page.html")
        .render(
            data=data,
            model=data.model,
            settings=data.settings,
            verdict=verdict(data),
            sections=sections(data),
            key_figures=key_figures(data),
            evaluated=next(iter(newest_by_ranking(data.metrics).values()))[0]
            if data.metrics
            else None,
            history=data.history[-TREND_DAYS:],
            remarks=remarks(data.comparison) if data.comparison else [],
            median_entropy=_median(data.entropy),
            most_entropy=float(np.log2(max(len(data.components), 1))),
            deliveries=delivered(data.deliveries),
            n_delivery_days=len({entry.delivery_day for entry in data.deliveries}),
        )
    )


def _median(values: Any) -> float:
    return float(np.median(values)) if values is not None and len(values) else 0.0


def key_figures(data: ReportData) -> dict[str, str]:
    """Return the figures at the top of the page: what it is -> its value."""
    mean, lowest = (float(data.model[f"{name}_agreement"]) for name in ("mean", "lowest"))
    return {
        **_recall_figure(data.metrics),
        "users": f"{data.n_users:,}",
        "items": f"{data.n_items:,}",
        "components": f"{len(data.components)}",
        f"agreement of halves, mean; lowest {lowest:.2f}": f"{mean:.2f}",
        "largest drift since the day before": f"{data.model['largest_drift']:.3f}",
    }


def _recall_figure(rows: Sequence[MetricsRow]) -> dict[str, str]:
    """Return recall of the newest evaluation, beside that of popularity."""
    if not rows:
        return {}
    k = shown_cutoff(rows)
    recall = {
        name: next(row.recall for row in same if row.cutoff == k)
        for name, same in newest_by_ranking(rows).items()
    }
    model = next(iter(recall.values()))
    beside = f"popularity {recall['popularity']:.3f}" if "popularity" in recall else ""
    return {f"Recall@{k}; {beside}": f"{model:.3f}"}


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
    marked = re.sub(
        r"`([^`]+)`", r"<code>\1</code>", str(escape(text))
    )  # a Markup would escape it again
    marked = re.sub(r"\b\d{4}-\d\d-\d\d\b", r'<span class="date">\g<0></span>', marked)
    return Markup(marked)  # noqa: S704 - escaped above
