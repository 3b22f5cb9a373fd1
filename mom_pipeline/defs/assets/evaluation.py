"""Group `evaluation`: the backtest of the model of some days ago, and the page about a day."""

from datetime import date

import dagster as dg

from mom_pipeline.core.evaluation.backtest import Backtest, backtest
from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.core.ranking.lists import HistoryOf
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.daily import DayOutput, DayRun, content_hash, daily_asset
from mom_pipeline.pipeline.days import NotUsable
from mom_pipeline.report.page import write_report
from mom_pipeline.serving.gate import evaluated_day
from mom_pipeline.warehouse.evaluations import metrics_rows, replace_metrics
from mom_pipeline.warehouse.matrix import delivered_pairs


@daily_asset("evaluation", {"duckdb", "table"}, "user_personalization", horizon=True)
def evaluation_metrics(run: DayRun, day: date) -> DayOutput:
    """Precision, recall, MAP and nDCG of the model of `evaluation.horizon_days` ago.

    A backtest: its lists against what its users took in the deliveries since, beside popularity
    as of the same day. A user's earlier items do not count, unless `serving.exclude_seen` is
    false; users without a history are excluded. The values of each user are stored for the gate
    of `promotion`.
    """
    days, model_day = run.days, evaluated_day(run.days, day)
    try:
        measured = _backtest(run, model_day, day)
    except NotUsable as reason:
        return _nothing(run, day, f"skipped: {reason}")
    if measured is None:
        return _nothing(run, day, "skipped: nobody took anything new")
    ranking = days.chosen(model_day).model.ranking
    by_ranking = {ranking: measured.model, "popularity": measured.popularity}
    rows = metrics_rows(day, model_day, by_ranking)
    made = days.publish(
        "evaluation_metrics",
        day,
        arrays=measured.as_arrays(),
        inputs={"model": days.made["decomposition", model_day].version},
        also=lambda connection: replace_metrics(connection, day, rows),
    )
    k = nearest_cutoff(measured.model.cutoffs)
    ours, theirs = measured.model.recall[k], measured.popularity.recall[k]
    return DayOutput(
        made.version,
        f"Recall@{k} {ours:.4f}, popularity {theirs:.4f}",
        metadata.of_backtest(measured, rows),
        [checks.better_than_popularity(ours, theirs)],
    )


def _backtest(run: DayRun, model_day: date, day: date) -> Backtest | None:
    """The model of a day on the deliveries since."""
    days, folder = run.days, run.folder
    model = folder.listing(days.model(model_day))
    train = folder.users(days.rows(model_day))
    test = delivered_pairs(folder.warehouse, model_day, day, folder.array)
    settings, history = folder.settings, HistoryOf(model, days.half_life(model_day))
    cutoffs, seen = settings.evaluation.cutoffs, settings.serving.exclude_seen
    return backtest(history, train, test, cutoffs, exclude_seen=seen)


def _nothing(run: DayRun, day: date, note: str) -> DayOutput:
    """A day without a model to look back at: no rows, and a note."""
    version = content_hash(day, "nothing")
    run.days.publish(
        "evaluation_metrics",
        day,
        version=version,
        also=lambda connection: replace_metrics(connection, day, []),
    )
    return DayOutput(version, note, {"note": note})


def _remove_old(run: DayRun) -> None:
    """The run is done with its days: remove the arrays of those that are too old."""
    removed = run.days.remove_old()
    run.context.log.info(f"{removed} files of older days removed (artifacts.retention_days)")


@daily_asset("evaluation", {"html"}, "recommendations", after=_remove_old)
def report(run: DayRun, day: date) -> DayOutput:
    """One self-contained HTML page about the model in use, `reports/<day>.html` below the folder.

    Written for the last day of a run: a long backfill does not draw hundreds of pages that nobody
    opens. Any other day: materialize it alone, or `mom-pipeline report --day YYYY-MM-DD`.
    """
    if day != run.run_days[-1]:
        note = f"only the last day of a run; `mom-pipeline report --day {day}` writes this one"
        version = content_hash(day, "no page")
        run.days.publish("report", day, version=version)
        return DayOutput(version, note, {"note": note})
    page = write_report(run.folder.settings, day)
    version = content_hash(run.days.made["recommendations", day].version)
    run.days.publish("report", day, version=version)
    size = page.path.stat().st_size
    shown = {"path": dg.MetadataValue.path(page.path.resolve()), "bytes": size}
    if page.problem:
        return DayOutput(version, page.problem, {**shown, "note": page.problem})
    return DayOutput(version, f"{page.path.name}, {size:,} bytes", shown)
