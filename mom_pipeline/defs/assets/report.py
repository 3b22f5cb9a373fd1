"""Group `evaluation`: the page about the model of a day."""

from datetime import date

import dagster as dg

from mom_pipeline.defs.assets.evaluation import evaluation_metrics
from mom_pipeline.defs.assets.logs import raw_logs
from mom_pipeline.defs.assets.model import decomposition
from mom_pipeline.defs.assets.serving import user_personalization
from mom_pipeline.defs.days import DayOutput, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.metadata import picture
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.report.page import remove_report, write_report
from mom_pipeline.report.sections import agreement_figure
from mom_pipeline.serving import DEFAULT_HOST, DEFAULT_PORT


@daily_asset(
    "evaluation",
    {"html"},
    [decomposition, user_personalization, evaluation_metrics, raw_logs],
    uses_warehouse=True,
)
def report(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """One self-contained HTML page, `reports/<day>.html` below the data folder; `page` opens it
    while `mom-pipeline serve` runs.

    Written for the last day of a run, so that a long backfill does not draw hundreds of pages
    that nobody opens. Any other day: `mom-pipeline report --day YYYY-MM-DD`; a page that shows
    an earlier model of a day is removed when the model is replaced.
    """
    settings, last = data_folder.settings, max(context.partition_keys)

    def compute(day: date) -> DayOutput:
        if day.isoformat() != last:
            remove_report(settings, day)
            note = f"only the last day of a run; `mom-pipeline report --day {day}` writes this one"
            return DayOutput(content_hash(day, "no page"), note, {"note": note})
        path, facts = write_report(settings, day)
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
