"""Writing the page of a day below the data folder."""

from datetime import date
from pathlib import Path

from mom_pipeline.artifacts.atomic import write_text
from mom_pipeline.artifacts.day_state import DayState, Unfit
from mom_pipeline.core.errors import MomError
from mom_pipeline.report.data import DayFacts, gather
from mom_pipeline.report.page import page
from mom_pipeline.settings import Settings


class NothingToReport(MomError):
    """There is no model of the day."""


def report_path(settings: Settings, day: date) -> Path:
    """Where the page of a day lies."""
    return settings.reports_dir / f"{day.isoformat()}.html"


def newest_day(settings: Settings) -> date:
    """The newest day with a model."""
    days = DayState(settings).artifacts.days("decomposition")
    if not days:
        raise NothingToReport(
            f"{settings.data_dir} has no model of any day yet; put log files into "
            f"{settings.logs_dir} and run `mom-pipeline update`, or try `mom-pipeline demo`"
        )
    return days[-1]


def write_report(settings: Settings, day: date) -> tuple[Path, DayFacts]:
    """Write the page of a day, whole or not at all; where it is, and what it shows."""
    try:
        facts = gather(settings, day)
    except Unfit as reason:
        newest = newest_day(settings)
        raise NothingToReport(
            f"there is no model of {day} to report on: {reason}; the newest is of {newest}, and "
            "`mom-pipeline update` computes every day of the logs that is missing or stale"
        ) from reason
    path = report_path(settings, day)
    write_text(path, page(facts))
    return path, facts


def remove_report(settings: Settings, day: date) -> None:
    """Remove a page that no longer shows the model of its day."""
    report_path(settings, day).unlink(missing_ok=True)
