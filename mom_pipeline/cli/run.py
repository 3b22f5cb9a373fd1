"""`mom-pipeline demo`, `update` and `backfill`: runs of the pipeline in this process.

They go through Dagster, whose history in the data folder is the one that `mom-pipeline ui` shows.
"""

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import click

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.catalogue import ITEMS_FILE, Catalogue
from mom_pipeline.cli.failures import told
from mom_pipeline.cli.terminal import (
    DAY,
    byte_progress,
    count_progress,
    day_option,
    json_option,
    print_json,
    print_table,
    warn,
    writes,
)
from mom_pipeline.core.errors import DamagedModel, MomError
from mom_pipeline.dagster_home import CODE_LOCATION, prepare_dagster_home
from mom_pipeline.datasets.importing import SUMMARY_FILE
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.decisions import accept_usual
from mom_pipeline.logs.ingest import IngestFailure, ingest_files, pending_files
from mom_pipeline.logs.logfiles import SetAside, discover
from mom_pipeline.pipeline.days import Days
from mom_pipeline.pipeline.freshness import DayStatus, day_statuses, days_behind, stretches
from mom_pipeline.serving.lists import renew_lists
from mom_pipeline.serving.registry import (
    DamagedPointer,
    ModelRegistry,
    NoChampion,
    UnknownVersion,
)
from mom_pipeline.settings import Settings
from mom_pipeline.settings_file import declare_first_day
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.evaluations import MetricsRow, metrics_until
from mom_pipeline.warehouse.lists import latest_items, lists_of, sample_users

# Dagster is imported where a run begins: that takes longer than to see that there is none.
if TYPE_CHECKING:
    import dagster as dg

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_TAGS = {
    # Dagster's own tag: the job under which its pages list a run of a command.
    ".dagster/repository": f"__repository__@{CODE_LOCATION}",
    # Whoever typed a command sees that it failed, and decides; a daemon does not run it again.
    "dagster/max_retries": "0",
}
_SHOWN_CUTOFFS = (5, 10, 20, 40, 100)
_USERS, _ITEMS = 4, 5
# Days, and names of files, that are named one by one.
_NOTES = 20
# What makes the product of a day again.
_PRODUCT = ("promotion", "recommendations", "report")
_UNUSABLE = (DamagedModel, UnknownVersion, DamagedPointer)


class RunFailed(MomError):
    """A run of the pipeline did not succeed."""


@click.command()
@json_option
@writes
def demo(settings: Settings, as_json: bool) -> None:
    """Run every asset over all days of the log files, and show the results.

    The logs of the data folder are used; sample logs are written when there are none. The table
    compares the model with popularity on the items that users took in the days after it.
    """
    if not discover(settings.logs_dir).files:
        from mom_pipeline.cli.sources import write_sample  # loads what an import needs

        write_sample(settings)
    settings = with_first_day(settings)
    begin = time.perf_counter()
    bring_up_to_date(settings)
    seconds, days = time.perf_counter() - begin, day_statuses(Days(settings))
    computed = [entry.day for entry in days if entry.mode != "–"]
    if not computed:
        raise LogFileError(_no_logs(settings))
    if as_json:
        metrics, lists = _results(settings, computed[-1])
        shown = {"metrics": [vars(row) for row in metrics], "recommendations": lists}
        print_json({"day": computed[-1], **shown, "seconds": seconds})
        return
    click.echo(f"{len(computed)} days, {computed[0]} to {computed[-1]}, in {seconds:.0f} s.")
    print_results(settings, computed[-1])
    print_notes(settings, days)
    click.echo(
        "Next: `mom-pipeline ui` opens the graph with these days in the browser;\n"
        "`mom-pipeline status` lists them. Put a file of a later day into "
        f"{settings.logs_dir}, and `mom-pipeline update` takes it in."
    )


@click.command()
@day_option
@writes
def update(settings: Settings, day: datetime | None) -> None:
    """Compute all days from the first one that is missing or stale.

    With --day, only that day is computed. A file that cannot be ingested is refused and costs its
    own day; a day that differs from the days before it is excluded, and the days after it are
    computed without its rows. A model in use that is damaged is mended, or the last whole one takes
    its place. What needs a person is said at the end, and which model is in use and why.
    """
    settings = with_first_day(settings)
    try:
        if day is None:
            done = bring_up_to_date(settings)
        else:
            run_days(settings, day.date(), day.date())
            done = [day.date()]
    except RunFailed:
        print_notes(settings, day_statuses(Days(settings)))
        raise
    days = day_statuses(Days(settings))
    if done:
        first, last = min(done), max(done)
        click.echo(f"Materialized {first}" + ("" if first == last else f" to {last}") + ".")
        print_results(settings, last)
    elif days:
        click.echo(f"Nothing to compute. {count_statuses(days)}")
    else:
        click.echo(_no_logs(settings))
    print_notes(settings, days)


@click.command()
@click.option("--from", "first", type=DAY, metavar="YYYY-MM-DD", required=True, help="First day.")
@click.option("--to", "last", type=DAY, metavar="YYYY-MM-DD", required=True, help="Last day.")
@click.option("--full", is_flag=True, help="Compute every day from all users.")
@writes
def backfill(settings: Settings, first: datetime, last: datetime, full: bool) -> None:
    """Materialize every asset of a range of days, in one run.

    New log files are ingested before. A day is computed from its changed users where
    the day before is usable, otherwise from all users.
    """
    if first > last:
        raise click.UsageError(f"--from {first:%Y-%m-%d} lies after --to {last:%Y-%m-%d}")
    settings = with_first_day(settings)
    ingest_new(settings)
    run_days(settings, first.date(), last.date(), full=full)
    print_results(settings, last.date())
    print_notes(settings, day_statuses(Days(settings)))


def with_first_day(settings: Settings) -> Settings:
    """The settings with a first day, written to the file where there was none."""
    days = [file.day for file in discover(settings.logs_dir).files]
    return declare_first_day(settings, days)


def ingest_new(settings: Settings) -> None:
    """Bring every new or changed log file into the warehouse, for commands that read its rows."""
    warehouse, (first, last) = Warehouse(settings), settings.first_and_last_day()
    files = [file for file in pending_files(warehouse) if first <= file.day <= last]
    if not files:
        return
    total = sum(file.path.stat().st_size for file in files)
    with writing_to(settings, "mom-pipeline", waiting=warn), byte_progress("ingest", total) as show:
        for result in ingest_files(warehouse, files, lambda file, n: show(file.source_file, n)):
            if isinstance(result, IngestFailure):
                warn(f"Refused: {result.error}")


def judge_import(settings: Settings) -> None:
    """Take in an import of which no day was computed: days usual within all of it are accepted."""
    if not (settings.data_dir / SUMMARY_FILE).exists() or Days(settings).computed():
        return
    ingest_new(settings)
    if usual := accept_usual(Warehouse(settings)):
        click.echo(f"Accepted, as usual within the whole history: {', '.join(map(str, usual))}.")


def bring_up_to_date(settings: Settings) -> list[date]:
    """Run the days that are behind, and mend a model in use that is not whole; return the days."""
    _leave_earlier_version(settings)
    judge_import(settings)
    registry = ModelRegistry(settings.models_dir)
    damage = damage_of_champion(registry)
    if damage:
        warn(f"The model in use is not whole: {damage}.")
        registry.set_aside_pointer()
    behind = days_behind(day_statuses(Days(settings)))
    for first, last in stretches(behind):
        run_days(settings, first, last)
    if damage:
        _mend_model(settings, registry, damage)
    return [entry.day for entry in behind]


def _leave_earlier_version(settings: Settings) -> None:
    """Remove the arrays that a version before the ledger wrote, and say that days are made anew."""
    old = [path.parent for path in settings.artifacts_dir.glob("*/*/current")]
    if not old:
        return
    click.echo(
        f"{settings.data_dir} is of an earlier version: its days are computed again from the rows "
        "in the warehouse; files, decisions, erasures and models stay as they are.",
        err=True,
    )
    for folder in (*old, settings.data_dir / "timings", settings.exports_dir / "recommendations"):
        shutil.rmtree(folder, ignore_errors=True)


def damage_of_champion(registry: ModelRegistry) -> str:
    """What is wrong with the model in use; "" where it is whole, or there is none yet."""
    try:
        registry.champion()
    except NoChampion:
        return ""
    except _UNUSABLE as error:
        return str(error)
    return ""


def _mend_model(settings: Settings, registry: ModelRegistry, damage: str) -> None:
    """Make the product of the newest computed day again where no run has put a model in use.

    Where that does not help, the newest whole version takes its place.
    """
    with suppress(NoChampion, *_UNUSABLE):
        registry.champion()
        return
    try:
        newest = Days(settings).computed()[-1]
        run_days(settings, newest, newest, only=_PRODUCT)
        registry.champion()
    except (MomError, IndexError):
        if registry.fall_back(f"the model in use was not whole: {damage}"):
            renew_lists(settings, Warehouse(settings))


def _no_logs(settings: Settings) -> str:
    return (
        f"There is no log file to compute in {settings.logs_dir}; put files such as "
        "2024-03-01.csv there, or `mom-pipeline demo` writes sample logs."
    )


def count_statuses(days: Sequence[DayStatus]) -> str:
    """How many days there are of each status."""
    counts = Counter(entry.status for entry in days).most_common()
    return f"Days: {', '.join(f'{n} {status}' for status, n in counts) or 'none yet'}."


def print_notes(settings: Settings, days: Sequence[DayStatus]) -> None:
    """Print what a person should know: files set aside, days to look at, the model in use."""
    print_set_aside(discover(settings.logs_dir).set_aside)
    entries = [entry for entry in days if entry.noteworthy]
    for entry in entries[-_NOTES:]:
        warn(f"{entry.day} {entry.status}: {entry.reason}")
    if len(entries) > _NOTES:
        warn(f"{len(entries) - _NOTES:,} earlier days: see `mom-pipeline status --days`")
    if doubled := Catalogue.open(settings.data_dir).doubled:
        said = f"{ITEMS_FILE} names {len(doubled):,} items more than once, such as {doubled[0]!r}"
        warn(f"{said}; the first line of each counts.")
    click.echo(model_in_use(settings, days))


def print_set_aside(set_aside: Sequence[SetAside]) -> None:
    """Print what lies in the logs folder and is no log."""
    for one in set_aside[:_NOTES]:
        warn(f"Set aside: {one.name}: {one.reason}")
    if len(set_aside) > _NOTES:
        warn(f"Set aside: {len(set_aside) - _NOTES:,} more names.")


def model_in_use(settings: Settings, days: Sequence[DayStatus]) -> str:
    """Which model answers, and why; or why there is none."""
    registry = ModelRegistry(settings.models_dir)
    champion = registry.champion_version()
    if champion is not None:
        change = registry.history()[-1]
        return f"In use: {champion}, {change.kind} by the {change.by}: {change.reason}"
    reasons = [f"{entry.day}: {entry.reason}" for entry in days if entry.reason]
    return f"No model is in use yet. {reasons[-1] if reasons else 'Nothing was computed.'}"


def run_days(
    settings: Settings,
    first: date,
    last: date,
    *,
    full: bool = False,
    only: Sequence[str] = (),
) -> None:
    """Materialize every asset, or only some, from first to last in one run, with a progress bar.

    Raises RunFailed with the first error.
    """
    prepare_dagster_home(settings)
    import dagster as dg

    from mom_pipeline.defs.automation import full_config
    from mom_pipeline.defs.build import ASSETS, definitions_of
    from mom_pipeline.defs.daily import Names, day_done
    from mom_pipeline.defs.partitions import daily_partitions, range_tags

    known = daily_partitions(settings).get_partition_keys()
    if unknown := [day for day in (first, last) if str(day) not in known]:
        raise click.UsageError(
            f"{unknown[0]} is none of the days of the pipeline, {known[0]} to {known[-1]}; see "
            "[pipeline] in the settings"
        )
    total = (len(only) or len(ASSETS)) * ((last - first).days + 1)
    defs = definitions_of(settings, executor=dg.in_process_executor)
    job = defs.resolve_job_def("full_rebuild" if full else "daily_update")
    config: dict[str, Any] = dict(full_config(Names())) if full else {"ops": {}}
    with dg.DagsterInstance.get() as instance, count_progress(total) as advance:
        token = day_done.set(lambda asset, day: advance(asset))
        try:
            done = job.execute_in_process(
                instance=instance,
                tags={**range_tags(first, last), **_TAGS},
                run_config={**_QUIET, **config},
                raise_on_error=False,
                asset_selection=[dg.AssetKey(name) for name in only] or None,
            )
        finally:
            day_done.reset(token)
    if not done.success:
        raise RunFailed(_failure(done))


def _failure(done: "dg.ExecuteInProcessResult") -> str:
    """What the first step that failed said."""
    for event in done.all_events:
        if event.is_step_failure:
            message, remedy = told(event.step_failure_data.error)
            said = f"{event.step_key} failed: {message} (run {done.run_id})"
            return f"{said}. {remedy}" if remedy else said
    return f"run {done.run_id} failed before any step; look at it with `mom-pipeline ui`"


def _results(settings: Settings, day: date) -> tuple[list[MetricsRow], list[dict[str, str]]]:
    """The metrics of the newest evaluation up to a day, and the lists of some users."""
    catalogue = Catalogue.open(settings.data_dir)
    with Warehouse(settings).reading() as connection:
        rows = metrics_until(connection, day)
        users = sample_users(connection, _USERS)
        lists = lists_of(connection, users)
        took = {user: latest_items(connection, user, day, _ITEMS) for user in users}
    shown = [
        {
            "user": user,
            "history": ", ".join(map(catalogue.label, took[user])),
            "recommended": ", ".join(map(catalogue.label, lists[user][:_ITEMS])),
        }
        for user in users
    ]
    return [row for row in rows if row.day == rows[-1].day], shown


def print_results(settings: Settings, day: date) -> None:
    """Print the results of a day as tables."""
    metrics, lists = _results(settings, day)
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
    if lists:
        columns = ["user", "took last", "recommended"]
        print_table("Some users", columns, [list(entry.values()) for entry in lists])
