"""Group `evaluation`: the page about the model of a day."""

from datetime import date

import dagster as dg

from mom_pipeline.artifacts.day_artifacts import TooLittleYet
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.defs.assets.evaluation import evaluation_metrics
from mom_pipeline.defs.conditions import WITH_ITS_DAY
from mom_pipeline.defs.days import DayOutput, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.metadata import picture
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.report.page import remove_report, report_path, write_report
from mom_pipeline.report.sections import agreement_figure
from mom_pipeline.serving import DEFAULT_HOST, DEFAULT_PORT


@daily_asset(
    "evaluation",
    {"html"},
    [evaluation_metrics],
    revision=1,
    uses_warehouse=True,
    optional=True,
    automation_condition=WITH_ITS_DAY,
)
def report(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """One self-contained HTML page, `reports/<day>.html` below the data folder; `page` opens it
    while `mom-pipeline serve` runs.

    Written for the last day of a run, so that a long backfill does not draw hundreds of pages
    that nobody opens, and anew where there is one already. Any other day: materialize it alone,
    or `mom-pipeline report --day YYYY-MM-DD`.
    """
    settings, last = data_folder.settings, max(context.partition_keys)

    def compute(day: date) -> DayOutput:
        if day.isoformat() != last and not report_path(settings, day).exists():
            note = f"only the last day of a run; `mom-pipeline report --day {day}` writes this one"
            return _without(day, note)
        try:
            path, facts = write_report(settings, day)
        except (TooLittleData, TooLittleYet) as reason:
            remove_report(settings, day)
            return _without(day, str(reason))
        metadata = {
            "path": dg.MetadataValue.path(path.resolve()),
            # A page over http may not open a file; this opens while `mom-pipeline serve` runs.
            "page": dg.MetadataValue.url(
                f"http://{DEFAULT_HOST}:{DEFAULT_PORT}/reports/{path.name}"
            ),
            "bytes": path.stat().st_size,
            "users": facts.n_users,
            "items": facts.n_items,
            "mean_agreement": facts.model["mean_agreement"],
            "lowest_agreement": facts.model["lowest_agreement"],
            "largest_drift": facts.model["largest_drift"],
            "agreement": picture(agreement_figure(facts)),
        }
        comparison = facts.comparison.created if facts.comparison else ""
        version = content_hash(facts.components, facts.metrics, comparison)
        return DayOutput(version, f"{path.name}, {path.stat().st_size:,} bytes", metadata)

    return for_each_day(context, compute)


def _without(day: date, note: str) -> DayOutput:
    return DayOutput(content_hash(day, "no page"), note, {"note": note}, made=False)
