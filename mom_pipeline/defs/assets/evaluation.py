"""Group `evaluation`: the backtest, the comparison with other methods, and the page about a day."""

from dataclasses import replace
from datetime import date, timedelta
from functools import partial

import dagster as dg

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.evaluation.backtest import Backtest, backtest, backtest_of_hidden
from mom_pipeline.core.evaluation.metrics import METRICS, nearest_cutoff
from mom_pipeline.defs import checks
from mom_pipeline.defs.daily import DayOutput, DayRun, daily_asset, only_note, table
from mom_pipeline.pipeline.choice import method_of
from mom_pipeline.pipeline.days import NotUsable
from mom_pipeline.report.page import write_report
from mom_pipeline.serving.gate import evaluated_day
from mom_pipeline.warehouse.lists import metrics_rows, replace_metrics
from mom_pipeline.warehouse.matrix import delivered_pairs, is_undated

_CUTOFFS = (5, 10, 20, 50, 100)


@daily_asset("evaluation", {"duckdb", "table"}, "user_personalization", horizon=True)
def evaluation_metrics(run: DayRun, day: date) -> DayOutput:
    """Precision, recall, MAP and nDCG of the model of `evaluation.horizon_days` ago.

    A backtest: its lists against what its users took in the deliveries since, beside popularity
    as of the same day. A user's earlier items do not count, unless `serving.exclude_seen` is
    false; users without a history are excluded. The values of each user are stored for the gate
    of `promotion`. Where no row has a time, a random fifth of everybody's items is hidden instead.
    """
    days, model_day = run.days, evaluated_day(run.days, day)
    model = days.made.get(("decomposition", model_day))
    inputs = {"model": model.version} if model else {}
    try:
        measured = _backtest(run, model_day, day)
        problem = "" if measured else "nobody took anything new"
    except NotUsable as reason:
        problem, undated = str(reason), is_undated(run.folder.warehouse, day)
        measured, model_day = _hidden(run, day) if undated else None, day
    if measured is None:
        no_rows = partial(replace_metrics, day=day, rows=[])
        return only_note(f"skipped: {problem}", inputs=inputs, also=no_rows)
    by_ranking = {
        days.chosen(model_day).model.ranking: measured.model,
        "popularity": measured.popularity,
    }
    rows = metrics_rows(day, model_day, by_ranking)
    k = nearest_cutoff(measured.model.cutoffs)
    ours, theirs = measured.model, measured.popularity
    shown = [
        {
            "ranking": row.ranking,
            "cutoff": row.cutoff,
            **{name: round(getattr(row, name), 5) for name in METRICS},
        }
        for row in rows
        if row.cutoff in {k, *_CUTOFFS}
    ]
    return DayOutput(
        f"Recall@{k} {ours.recall[k]:.4f}, popularity {theirs.recall[k]:.4f}",
        {
            "model_day": model_day.isoformat(),
            "users": ours.n_users,
            "newcomers_excluded": measured.n_newcomers,
            f"recall_at_{k}": ours.recall[k],
            f"popularity_recall_at_{k}": theirs.recall[k],
            f"map_at_{k}": ours.map[k],
            "metrics": table(shown),
        },
        [checks.better_than_popularity(ours.recall[k], theirs.recall[k])],
        arrays=measured.as_arrays(),
        inputs=inputs,
        also=lambda connection: replace_metrics(connection, day, rows),
    )


def _backtest(run: DayRun, model_day: date, day: date) -> Backtest | None:
    """The model of a day on the deliveries since."""
    days, folder, settings = run.days, run.folder, run.folder.settings
    model = folder.listing(days.model(model_day))
    train = folder.users(days.rows(model_day))
    test = delivered_pairs(folder.warehouse, model_day, day, folder.array)
    cutoffs, seen = settings.evaluation.cutoffs, settings.serving.exclude_seen
    return backtest(model, train, test, cutoffs, exclude_seen=seen)


def _hidden(run: DayRun, day: date) -> Backtest | None:
    """Without times: a fit without a random fifth of everybody's items, on these."""
    settings, rows, chosen = run.folder.settings, run.days.rows(day), run.days.chosen(day).model
    method = method_of(replace(chosen, n_components=min(chosen.n_components, *rows.X.shape)))
    cutoffs, seen = settings.evaluation.cutoffs, settings.serving.exclude_seen
    return backtest_of_hidden(method, rows, run.folder.listing, cutoffs, exclude_seen=seen)


@daily_asset("evaluation", {"numpy"}, "evaluation_metrics")
def model_comparison(run: DayRun, day: date) -> DayOutput:
    """The methods of `comparison.methods` on the last `evaluation.horizon_days` days of a run.

    Each learns from the days before in a process of its own, with settings chosen on the last
    of these. Not a part of the daily update: it is made each Sunday, or by its job.
    """
    # Loaded here: other days need none of it.
    from mom_pipeline.comparison import tables
    from mom_pipeline.comparison.isolated import Budget
    from mom_pipeline.comparison.results import ComparisonError, save
    from mom_pipeline.comparison.run import Options, run_comparison
    from mom_pipeline.comparison.split import split_by_time

    settings, name = run.folder.settings, run.folder.settings.data_dir.resolve().name
    if day != run.run_days[-1]:
        return only_note("only the last day of a run")
    train_until = day - timedelta(days=settings.evaluation.horizon_days)
    try:
        split = split_by_time(run.folder.warehouse, train_until, day, name=name)
    except ComparisonError as reason:
        return only_note(f"skipped: {reason}")
    options = Options(
        methods=settings.comparison.methods,
        n_components=settings.model.n_components,
        seed=settings.model.seed,
        cutoffs=settings.evaluation.cutoffs,
        budget=Budget(),
    )
    with scratch_folder(settings, "comparison") as scratch:
        comparison = run_comparison(
            split, options, scratch, lambda text, share: run.context.log.debug(text)
        )
    save(comparison, settings.comparisons_dir / str(day))
    return DayOutput(
        tables.summary(comparison),
        {
            "users": comparison.n_users,
            "reference": comparison.reference,
            "data": table(tables.description_table(comparison).records()),
            "metrics": table(tables.metrics_table(comparison).records()),
            "costs": table(tables.cost_table(comparison).records()),
            "remarks": "\n".join(tables.remarks(comparison)),
        },
        content=[(result.name, result.failure, result.means) for result in comparison.results],
    )


@daily_asset("evaluation", {"html"}, "recommendations")
def report(run: DayRun, day: date) -> DayOutput:
    """One self-contained HTML page about the model in use, `reports/<day>.html` below the folder.

    Written for the last day of a run: a long backfill does not draw hundreds of pages that nobody
    opens. Any other day: materialize it alone, or `mom-pipeline report --day YYYY-MM-DD`.
    """
    if day != run.run_days[-1]:
        hint = f"`mom-pipeline report --day {day}` writes this one"
        return only_note(f"only the last day of a run; {hint}")
    page = write_report(run.folder.settings, day)
    # The run is done with its days.
    removed = run.days.store.remove_others(run.days.kept_files())
    run.context.log.info(f"{removed} files of older days removed (artifacts.retention_days)")
    size = page.path.stat().st_size
    shown = {"path": dg.MetadataValue.path(page.path.resolve()), "bytes": size}
    return DayOutput(
        page.problem or f"{page.path.name}, {size:,} bytes",
        {**shown, **({"note": page.problem} if page.problem else {})},
        content=run.days.made["recommendations", day].version,
    )
