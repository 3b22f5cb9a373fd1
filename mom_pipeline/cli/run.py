"""`mom-pipeline demo`, `update` and `backfill`: runs of the pipeline in this process.

They go through Dagster, whose history in the data folder is the one that `mom-pipeline ui` shows.
"""

import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.catalogue import ITEMS_FILE, Catalogue
from mom_pipeline.cli.failures import told
from mom_pipeline.cli.logs import print_set_aside
from mom_pipeline.cli.terminal import (
    DAY,
    count_progress,
    day_option,
    json_option,
    print_json,
    print_table,
    writes,
)
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import write_bytes
from mom_pipeline.dagster_home import prepare_dagster_home
from mom_pipeline.defs.freshness import (
    NOT_COMPUTABLE,
    NOTEWORTHY,
    DayFreshness,
    days_behind,
    freshness,
    stretches,
)
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.settings.writing import declare_first_day
from mom_pipeline.warehouse import recommendations as lists
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.evaluations import MetricsRow, metrics_until

# Dagster is imported where a run begins: that takes longer than to see that there is none.
if TYPE_CHECKING:
    import dagster as dg

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_SHOWN_CUTOFFS = (5, 10, 20, 40, 100)
_USERS, _ITEMS = 4, 5
# Assets of a day that look back at earlier models.
_JUDGING = ("evaluation_metrics", "promotion", "report")
# Days that are named one by one.
_NOTES = 20


class RunFailed(MomError):
    """A run of the pipeline did not succeed."""


@click.command()
@json_option
@writes
def demo(as_json: bool) -> None:
    """Run every asset over all days of the log files, and show the results.

    The logs of the data folder are used; sample logs are written when there are none. The table
    compares the model with popularity on the items that users took in the days after it.

    \b
    Examples:
      mom-pipeline demo
      MOM_DATA_DIR=/tmp/first-look mom-pipeline demo --json
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    if not discover(settings.logs_dir).files:
        from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries

        for delivery in sample_deliveries(SampleSettings()):
            write_bytes(settings.logs_dir / delivery.name, delivery.content)
    settings = with_first_day(settings)
    days = _computable(_days(settings))
    if not days:
        raise LogFileError(_no_logs(settings))
    begin = time.perf_counter()
    for first, last in stretches(days):
        run_days(settings, first, last)
    _, state = bring_up_to_date(settings)
    seconds = time.perf_counter() - begin
    if as_json:
        print_json({**results(settings, days[-1].day), "seconds": seconds})
        return
    click.echo(f"{len(days)} days, {days[0].day} to {days[-1].day}, in {seconds:.0f} s.")
    print_results(settings, days[-1].day)
    print_notes(settings, state)
    click.echo(
        "Next: `mom-pipeline ui` opens the graph with these days in the browser;\n"
        "`mom-pipeline status` lists them. Put a file of a later day into "
        f"{settings.logs_dir}, and `mom-pipeline update` takes it in."
    )


@click.command()
@day_option
@writes
def update(day: datetime | None) -> None:
    """Compute all days from the first one that is missing or stale.

    With --day, only that day is computed. A file that cannot be taken is refused and costs its
    own day; a day that differs from the days before it is kept out, and the days after it are
    computed without its rows. What is refused, kept out or waiting is said at the end, and which
    model is in use and why.

    \b
    Examples:
      mom-pipeline update
      mom-pipeline update --day 2024-03-28
    """  # noqa: D301 - \b tells click to keep the lines
    settings = with_first_day(load_settings())
    try:
        done, days = _update(settings, day.date() if day else None)
    except RunFailed:
        print_notes(settings)
        raise
    if done:
        first, last = min(done), max(done)
        click.echo(f"Materialized {first}" + ("" if first == last else f" to {last}") + ".")
        print_results(settings, last)
    elif entries := _computable(days):
        counts = Counter(entry.status for entry in entries)
        words = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        click.echo(f"Nothing to compute. Days: {words}.")
    else:
        click.echo(_no_logs(settings))
    print_notes(settings, days)


def _update(settings: Settings, day: date | None) -> tuple[list[date], list[DayFreshness]]:
    """Compute one day, or all that are behind; return them, and the state of every day then."""
    if day is None:
        return bring_up_to_date(settings)
    run_days(settings, day, day)
    return [day], _days(settings)


@click.command()
@click.option("--from", "first", type=DAY, metavar="YYYY-MM-DD", required=True, help="First day.")
@click.option("--to", "last", type=DAY, metavar="YYYY-MM-DD", required=True, help="Last day.")
@click.option("--full", is_flag=True, help="Compute every day from all users.")
@writes
def backfill(first: datetime, last: datetime, full: bool) -> None:
    """Materialize every asset of a range of days, in one run.

    A day is computed from its changed users where the day before is usable, otherwise from all
    users.

    \b
    Examples:
      mom-pipeline backfill --from 2024-03-01 --to 2024-03-28
      mom-pipeline backfill --from 2024-03-28 --to 2024-03-28 --full
    """  # noqa: D301 - \b tells click to keep the lines
    if first > last:
        raise click.UsageError(f"--from {first:%Y-%m-%d} lies after --to {last:%Y-%m-%d}")
    settings = with_first_day(load_settings())
    run_days(settings, first.date(), last.date(), full=full)
    stale: date | None = None
    while (again := _first_stale(settings, first.date(), last.date())) not in (None, stale):
        # A day was kept out that others were made from.
        run_days(settings, again, last.date(), full=full)
        stale = again
    print_results(settings, last.date())
    print_notes(settings)


def with_first_day(settings: Settings) -> Settings:
    """Return the settings with a first day, written to the file where there was none."""
    days = [file.day for file in discover(settings.logs_dir).files]
    return declare_first_day(settings, days)


def bring_up_to_date(settings: Settings) -> tuple[list[date], list[DayFreshness]]:
    """Run the days that are behind until none is; return them, and the state of every day then.

    A second run follows where the first one kept out a day that others were made from. It stops
    when a run changes nothing: a file may still be being written.
    """
    done: list[date] = []
    before: list[DayFreshness] = []
    while (behind := days_behind(days := _days(settings))) and behind != before:
        for first, last in stretches(behind):
            run_days(settings, first, last)
        done += [entry.day for entry in behind]
        before = behind
    if done and (newest := _computable(days)[-1]).day > max(done) and newest.status == "fresh":
        # It was computed before the days that it can be judged by.
        run_days(settings, newest.day, newest.day, only=_JUDGING)
    return done, days


def _first_stale(settings: Settings, first: date, last: date) -> date | None:
    stale = [entry.day for entry in _days(settings) if entry.status == "stale"]
    return next((day for day in stale if first <= day <= last), None)


def _days(settings: Settings) -> list[DayFreshness]:
    return freshness(Warehouse(settings), DayState(settings))


def _computable(days: Sequence[DayFreshness]) -> list[DayFreshness]:
    return [entry for entry in days if entry.status not in NOT_COMPUTABLE]


def _no_logs(settings: Settings) -> str:
    return (
        f"There is no log file to compute in {settings.logs_dir}; put files such as "
        "2024-03-01.csv there, or `mom-pipeline demo` writes sample logs."
    )


def print_notes(settings: Settings, days: Sequence[DayFreshness] | None = None) -> None:
    """Print what a person should know: files set aside, days not taken, the model in use.

    days: the state of every day, where it is known already.
    """
    days = _days(settings) if days is None else days
    print_set_aside(discover(settings.logs_dir).set_aside)
    entries = [entry for entry in days if entry.status in NOTEWORTHY]
    for entry in entries[-_NOTES:]:
        click.secho(f"{entry.day} {entry.status}: {entry.reason}", fg="yellow", err=True)
    if len(entries) > _NOTES:
        more = f"{len(entries) - _NOTES:,} earlier days: see `mom-pipeline status`"
        click.secho(more, fg="yellow", err=True)
    if doubled := Catalogue.open(settings.data_dir).doubled:
        said = f"{ITEMS_FILE} names {len(doubled):,} items more than once, such as {doubled[0]!r}"
        click.secho(f"{said}; the first line of each counts.", fg="yellow", err=True)
    click.echo(model_in_use(settings))


def model_in_use(settings: Settings) -> str:
    """Return which model answers, and why; or why there is none."""
    registry = ModelRegistry(settings.models_dir)
    champion = registry.champion_version()
    if champion is not None:
        change = registry.history()[-1]
        return f"In use: {champion}, {change.kind} by the {change.by}: {change.reason}"
    reasons = [
        f"{entry.day}: {entry.reason}" for entry in _computable(_days(settings)) if entry.reason
    ]
    return f"No model is in use yet. {reasons[-1] if reasons else 'Nothing was computed.'}"


@contextmanager
def dagster_instance(settings: Settings) -> "Iterator[dg.DagsterInstance]":
    """Yield the instance of the data folder, which the UI shows."""
    import dagster as dg

    prepare_dagster_home(settings)
    with dg.DagsterInstance.get() as instance:
        yield instance


def run_days(
    settings: Settings,
    first: date,
    last: date,
    *,
    full: bool = False,
    only: Sequence[str] = (),
    choice_seconds: float = 0.0,
) -> str:
    """Materialize every asset, or only some, from first to last in one run, with a progress bar.

    choice_seconds: what the choice of settings may take; 0: as the settings say.
    Returns the id of the run. Raises RunFailed with the first error.
    """
    prepare_dagster_home(settings)
    # Imported here: the days of the partitions are those of the settings of this moment.
    with _without_collection():
        import dagster as dg

        from mom_pipeline.definitions import ASSETS, defs
        from mom_pipeline.defs.days import day_done
        from mom_pipeline.defs.run_tags import NOT_RETRIED, range_tags
        from mom_pipeline.defs.runs import close_dead_runs, process_tag

    _require_partitions(first, last)
    total = (len(only) or len(ASSETS)) * ((last - first).days + 1)
    job = defs.resolve_job_def("full_rebuild" if full else "daily_update")
    with dagster_instance(settings) as instance, count_progress(total) as advance:
        close_dead_runs(instance)
        run_id = str(uuid4())
        token = day_done.set(lambda asset, day: advance(asset))
        try:
            done = job.execute_in_process(
                instance=instance,
                run_id=run_id,
                # With the process from the very beginning: it may be killed before any asset.
                tags={**range_tags(first, last), **process_tag(run_id), **NOT_RETRIED},
                run_config={**_QUIET, **_run_config(full, choice_seconds)},
                raise_on_error=False,
                asset_selection=[dg.AssetKey(name) for name in only] or None,
            )
        finally:
            day_done.reset(token)
            gc.unfreeze()
    if not done.success:
        raise RunFailed(_failure(done))
    return done.run_id


@contextmanager
def _without_collection() -> "Iterator[None]":
    """Import many modules without looking for garbage among them, until `gc.unfreeze`."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _run_config(full: bool, choice_seconds: float) -> dict[str, Any]:
    from mom_pipeline.defs.automation import FULL_CONFIG

    ops: dict[str, Any] = dict(FULL_CONFIG["ops"]) if full else {}
    if choice_seconds:
        ops["chosen_settings"] = {"config": {"seconds": choice_seconds}}
    return {"ops": ops} if ops else {}


def _require_partitions(first: date, last: date) -> None:
    from mom_pipeline.defs.partitions import DAILY

    for day in (first, last):
        if str(day) not in DAILY.get_partition_keys():
            raise click.UsageError(
                f"{day} is none of the days of the pipeline, {DAILY.get_first_partition_key()} to "
                f"{DAILY.get_last_partition_key()}; see [pipeline] in the settings"
            )


def _failure(done: "dg.ExecuteInProcessResult") -> str:
    """Return what the first step that failed said."""
    for event in done.all_events:
        if event.is_step_failure:
            message, remedy = told(event.step_failure_data.error)
            said = f"{event.step_key} failed: {message} (run {done.run_id})"
            return f"{said}. {remedy}" if remedy else said
    return f"run {done.run_id} failed before any step; look at it with `mom-pipeline ui`"


def results(settings: Settings, day: date) -> dict[str, Any]:
    """Return the metrics of the newest evaluation up to a day, and the lists of some users."""
    with Warehouse(settings).reading() as connection:
        rows = metrics_until(connection, day)
        newest = [row for row in rows if row.day == rows[-1].day]
        return {
            "day": day.isoformat(),
            "metrics": [vars(row) for row in newest],
            "recommendations": _sample_lists(connection, day, Catalogue.open(settings.data_dir)),
        }


def print_results(settings: Settings, day: date) -> None:
    """Print the results of a day as tables."""
    shown = results(settings, day)
    metrics = [MetricsRow(**row) for row in shown["metrics"]]
    if metrics:
        title = (
            f"Model of {metrics[0].model_day} on what {metrics[0].users:,} users took up to "
            f"{metrics[0].day}"
        )
        lines = [
            (row.ranking, row.cutoff, *(f"{v:.4f}" for v in (row.precision, row.recall, row.map)))
            for row in sorted(metrics, key=lambda row: (row.cutoff, row.ranking))
            if row.cutoff in _SHOWN_CUTOFFS
        ]
        print_table(title, ["ranking", "at", "precision", "recall", "MAP"], lines)
    if lists_shown := shown["recommendations"]:
        print_table(
            f"Some users on {day}",
            ["user", "took last", "recommended"],
            [(r["user"], r["history"], r["recommended"]) for r in lists_shown],
        )


def _sample_lists(connection: Connection, day: date, catalogue: Catalogue) -> list[dict[str, str]]:
    return [
        {
            "user": user,
            "history": ", ".join(
                catalogue.label(item) for item in lists.latest_items(connection, user, day, _ITEMS)
            ),
            "recommended": ", ".join(
                catalogue.label(item)
                for _, item, _ in lists.list_of(connection, user, day)[:_ITEMS]
            ),
        }
        for user in lists.sample_users(connection, day, _USERS)
    ]
