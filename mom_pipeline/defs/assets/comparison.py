"""Group `evaluation`: the comparison with other methods on the last days; not every day."""

from collections.abc import Sequence
from datetime import date, timedelta

import dagster as dg

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.comparison import tables
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.results import Comparison, ComparisonError, save
from mom_pipeline.comparison.run import Options, run_comparison
from mom_pipeline.comparison.split import split_by_time
from mom_pipeline.comparison.tables import figure_2
from mom_pipeline.defs.assets.evaluation import evaluation_metrics
from mom_pipeline.defs.conditions import EACH_SUNDAY
from mom_pipeline.defs.days import DayOutput, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.metadata import picture, table
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.settings import Settings


@daily_asset(
    "evaluation",
    {"numpy"},
    [evaluation_metrics],
    revision=1,
    optional=True,
    automation_condition=EACH_SUNDAY,
)
def model_comparison(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """The methods of `comparison.methods` on the last `comparison.test_days` days.

    Each learns from the days before in a process of its own, with settings chosen on the last
    of these. Not a part of the daily update: it is made each Sunday, or by the job
    `comparison`.
    """
    settings = data_folder.settings
    wanted = compared_days(context.partition_keys, settings.comparison.every_days)

    def step(day: date) -> DayOutput:
        if day not in wanted:
            return _nothing(
                day, f"left out: comparison.every_days is {settings.comparison.every_days}"
            )
        train_until = day - timedelta(days=settings.comparison.test_days)
        try:
            split = split_by_time(
                data_folder.warehouse, train_until, day, name=settings.data_dir.resolve().name
            )
        except ComparisonError as reason:
            return _nothing(day, f"skipped: {reason}")
        with scratch_folder(settings, "comparison") as scratch:
            comparison = run_comparison(
                split, _options(settings), scratch, lambda text, share: context.log.debug(text)
            )
        save(comparison, settings.comparisons_dir / str(day))
        return _output(comparison)

    return for_each_day(context, step)


def compared_days(keys: Sequence[str], every_days: int) -> set[date]:
    """Return the last day of a run, and before it one day in every `every_days`."""
    return {date.fromisoformat(key) for key in sorted(keys, reverse=True)[::every_days]}


def _nothing(day: date, note: str) -> DayOutput:
    return DayOutput(content_hash(day, "nothing"), note, {"note": note}, made=False)


def _options(settings: Settings) -> Options:
    chosen = settings.comparison
    return Options(
        methods=chosen.methods,
        n_components=settings.model.n_components,
        seed=settings.model.seed,
        cutoffs=settings.evaluation.cutoffs,
        budget=Budget(chosen.time_budget_seconds, chosen.memory_budget_bytes),
    )


def _output(comparison: Comparison) -> DayOutput:
    shown = {
        "data": tables.description_table(comparison),
        "metrics": tables.metrics_table(comparison),
        "costs": tables.cost_table(comparison),
    }
    metadata = {
        "users": comparison.n_users,
        "reference": comparison.reference,
        **{name: table(rows.records()) for name, rows in shown.items()},
        "figure_2": picture(*figure_2(comparison)),
        "remarks": dg.MetadataValue.md("\n\n".join(tables.remarks(comparison))),
    }
    means = [(result.name, result.failure, result.means) for result in comparison.results]
    return DayOutput(content_hash(means), tables.summary(comparison), metadata)
