"""Group `evaluation`: the comparison with other methods on the last days; not every day."""

from datetime import date, timedelta

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.comparison import tables
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.results import Comparison, ComparisonError, save
from mom_pipeline.comparison.run import Options, run_comparison
from mom_pipeline.comparison.split import split_by_time
from mom_pipeline.defs.daily import DayOutput, DayRun, content_hash, daily_asset
from mom_pipeline.defs.metadata import table
from mom_pipeline.settings import Settings


@daily_asset("evaluation", {"numpy"}, "evaluation_metrics")
def model_comparison(run: DayRun, day: date) -> DayOutput:
    """The methods of `comparison.methods` on the last `evaluation.horizon_days` days of a run.

    Each learns from the days before in a process of its own, with settings chosen on the last
    of these. Not a part of the daily update: it is made each Sunday, or by its job.
    """
    settings, name = run.folder.settings, run.folder.settings.data_dir.resolve().name
    if day != run.run_days[-1]:
        return _nothing(day, "only the last day of a run")
    train_until = day - timedelta(days=settings.evaluation.horizon_days)
    try:
        split = split_by_time(run.folder.warehouse, train_until, day, name=name)
    except ComparisonError as reason:
        return _nothing(day, f"skipped: {reason}")
    with scratch_folder(settings, "comparison") as scratch:
        comparison = run_comparison(
            split, _options(settings), scratch, lambda text, share: run.context.log.debug(text)
        )
    save(comparison, settings.comparisons_dir / str(day))
    return _output(comparison)


def _nothing(day: date, note: str) -> DayOutput:
    return DayOutput(content_hash(day, "nothing"), note, {"note": note})


def _options(settings: Settings) -> Options:
    return Options(
        methods=settings.comparison.methods,
        n_components=settings.model.n_components,
        seed=settings.model.seed,
        cutoffs=settings.evaluation.cutoffs,
        budget=Budget(),
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
        "remarks": "\n".join(tables.remarks(comparison)),
    }
    means = [(result.name, result.failure, result.means) for result in comparison.results]
    return DayOutput(content_hash(means), tables.summary(comparison), metadata)
