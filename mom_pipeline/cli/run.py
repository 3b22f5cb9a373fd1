"""`mom-pipeline demo`, `update` and `backfill`: runs of the pipeline in this process.

They go through Dagster, whose history in the data folder is the one that `mom-pipeline ui` shows.
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.catalogue import Catalogue
from mom_pipeline.cli.main import told
from mom_pipeline.cli.status import (
    count_statuses,
    damage_of_champion,
    model_in_use,
    print_needs,
)
from mom_pipeline.cli.terminal import (
    A_DAY,
    day_option,
    print_table,
    progress_bar,
    warn,
    writes,
)
from mom_pipeline.core.errors import MomError
from mom_pipeline.dagster_home import CODE_LOCATION, prepare_dagster_home
from mom_pipeline.datasets.importing import SUMMARY_FILE
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.decisions import accept_usual
from mom_pipeline.logs.ingest import IngestFailure, ingest_files, pending_files
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.pipeline.days import CODE_VERSION, Days
from mom_pipeline.pipeline.freshness import day_statuses, days_behind, stretches
from mom_pipeline.serving.events import EventStore
from mom_pipeline.serving.lists import export_path, renew_lists
from mom_pipeline.serving.registry import UNUSABLE, ModelRegistry, NoChampion
from mom_pipeline.settings import Settings
from mom_pipeline.settings_file import declare_first_day
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.lists import (
    is_whole_export,
    latest_items,
    lists_of,
    metrics_until,
    sample_users,
)
from mom_pipeline.warehouse.materializations import seconds_of_a_day

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
# People and items that are shown; what is said of that needs a hand.
_PEOPLE, _ITEMS, _NEEDS = 3, 5, 20
# Of a folder that has not measured it, a year of 30Music.
_SECONDS_OF_A_DAY = 1.5
# What makes the product of a day again.
_PRODUCT = ("promotion", "recommendations", "report")


class RunFailed(MomError):
    """A run of the pipeline did not succeed."""


@click.command()
@writes
def demo(settings: Settings) -> None:
    """Run every asset over all days of the log files, and show the results.

    The logs of the data folder are used; sample logs are written when there are none. The table
    compares the model with popularity on the items that users took in the days after it.
    """
    if not discover(settings.logs_dir).files:
        from mom_pipeline.cli.sources import write_sample  # loads what an import needs

        write_sample(settings)
    settings, begin = with_first_day(settings), time.perf_counter()
    bring_up_to_date(settings)
    seconds = time.perf_counter() - begin
    computed = [entry.day for entry in day_statuses(Days(settings)) if entry.mode != "–"]
    if not computed:
        raise LogFileError(_no_logs(settings))
    click.echo(f"{len(computed)} days, {computed[0]} to {computed[-1]}, in {seconds:.0f} s.")
    print_results(settings, computed[-1])
    _print_state(settings)
    click.echo(
        "Next: `mom-pipeline ui` opens the graph with these days in the browser;\n"
        "`mom-pipeline status` lists them. Put a file of a later day into "
        f"{settings.logs_dir}, and `mom-pipeline update` takes it in."
    )


@click.command()
@day_option
@writes
def update(settings: Settings, day: date | None) -> None:
    """Compute all days from the first one that is missing or stale.

    With --day, only that day is computed. A file that cannot be ingested is refused and costs its
    own day; a day that differs from the days before it is excluded, and the days after it are
    computed without its rows. A model in use that is damaged is mended, or the last whole one takes
    its place. What needs a person is said at the end, and which model is in use and why.
    """
    EventStore(settings).close_days()
    settings = with_first_day(settings)
    try:
        if day is None:
            done = bring_up_to_date(settings)
        else:
            run_days(settings, day, day)
            done = [day]
    except RunFailed:
        _print_state(settings)
        raise
    if done:
        first, last = min(done), max(done)
        click.echo(f"Materialized {first}" + ("" if first == last else f" to {last}") + ".")
        print_results(settings, last)
    elif days := day_statuses(Days(settings)):
        click.echo(f"Nothing to compute. {count_statuses(days)}")
    else:
        click.echo(_no_logs(settings))
    _print_state(settings)


@click.command()
@click.option("--from", "first", **A_DAY, required=True, help="First day.")
@click.option("--to", "last", **A_DAY, required=True, help="Last day.")
@click.option("--full", is_flag=True, help="Compute every day from all users.")
@writes
def backfill(settings: Settings, first: date, last: date, full: bool) -> None:
    """Materialize every asset of a range of days, in one run.

    New log files are ingested before. A day is computed from its changed users where
    the day before is usable, otherwise from all users.
    """
    if first > last:
        raise click.UsageError(f"--from {first} lies after --to {last}")
    settings = with_first_day(settings)
    ingest_new(settings)
    run_days(settings, first, last, full=full)
    print_results(settings, last)
    _print_state(settings)


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
    with (
        writing_to(settings, "mom-pipeline", waiting=warn),
        progress_bar("ingest", total, counted=True) as show,
    ):
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
    judge_import(settings)
    registry = ModelRegistry(settings.models_dir)
    damage = damage_of_champion(registry)
    if damage:
        warn(f"The model in use is not whole: {damage}.")
        registry.set_aside_pointer()
    behind = days_behind(day_statuses(Days(settings)))
    if not behind and _heal(settings):
        behind = days_behind(day_statuses(Days(settings)))
    _say_what_is_made_anew(settings, registry, [entry.day for entry in behind])
    for first, last in stretches(behind):
        run_days(settings, first, last)
    if damage:
        _mend_model(settings, registry, damage)
    return [entry.day for entry in behind]


def _heal(settings: Settings) -> bool:
    """Remove arrays and versions that are damaged, write a damaged export; whether days are behind.

    Only where there is nothing else to do: every kept file is read.
    """
    if versions := ModelRegistry(settings.models_dir).remove_damaged():
        warn(f"Damaged versions of the model, not in use, are removed: {', '.join(versions)}.")
    removed = Days(settings).remove_damaged()
    if removed:
        warn(f"{removed:,} files of arrays were damaged; their days are computed again.")
    elif not is_whole_export(export_path(settings)):
        warn("The export was damaged, and is written again.")
        with suppress(NoChampion):
            renew_lists(settings, Warehouse(settings))
    return bool(removed)


def _say_what_is_made_anew(settings: Settings, registry: ModelRegistry, behind: list[date]) -> None:
    """Say which days are of an earlier version of the code, and about how long they take."""
    made = Days(settings).made
    old = {day for (_, day), one in made.items() if one.code != CODE_VERSION}
    anew = [day for day in behind if day in old or (not made and registry.names())]
    if anew and (warehouse := Warehouse(settings)).exists():  # or it was removed, being damaged
        with warehouse.reading() as connection:
            seconds = len(anew) * (seconds_of_a_day(connection) or _SECONDS_OF_A_DAY)
        click.echo(
            f"{settings.data_dir} is of an earlier version: {len(anew)} days, {anew[0]} to "
            f"{anew[-1]}, are computed again from the rows in the warehouse, in about "
            f"{math.ceil(seconds / 60)} min; files, decisions, erasures and models stay.",
            err=True,
        )


def _mend_model(settings: Settings, registry: ModelRegistry, damage: str) -> None:
    """Make the product of the newest computed day again where no run has put a model in use.

    Where that does not help, the newest whole version takes its place.
    """
    with suppress(NoChampion, *UNUSABLE):
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


def run_days(
    settings: Settings,
    first: date,
    last: date,
    *,
    full: bool = False,
    anew: bool = False,
    only: Sequence[str] = (),
) -> None:
    """Materialize every asset, or only some, from first to last in one run, with a progress bar.

    full: moments from all users.  anew: settings chosen again. Raises RunFailed with the first
    error.
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
    config: dict[str, Any] = dict(full_config(Names(), anew=anew)) if full else {"ops": {}}
    with (
        dg.DagsterInstance.get() as instance,
        progress_bar("starting", total, counted=True) as show,
    ):
        token = day_done.set(lambda asset, day: show(asset, 1))
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


def print_results(settings: Settings, day: date) -> None:
    """Print the metrics as of a day, and the lists of some people."""
    label = Catalogue.open(settings.data_dir).label
    with Warehouse(settings).reading() as connection:
        rows, users = metrics_until(connection, day), sample_users(connection, _PEOPLE)
        lists = lists_of(connection, users)
        took = {user: latest_items(connection, user, day, _ITEMS) for user in users}
    if newest := [row for row in rows if row.day == rows[-1].day]:
        model_day, n = newest[0].model_day, f"{newest[0].users:,}"
        title = f"Model of {model_day} on what {n} users took up to {newest[0].day}"
        if model_day == newest[0].day:
            title = f"A model on a random fifth of the items of {n} users, hidden from it"
        lines = [
            (row.ranking, row.cutoff, *(f"{v:.4f}" for v in (row.precision, row.recall, row.map)))
            for row in sorted(newest, key=lambda row: (row.cutoff, row.ranking))
            if row.cutoff in _SHOWN_CUTOFFS
        ]
        print_table(title, ["ranking", "at", "precision", "recall", "MAP"], lines)
    for user in users:
        both = map(label, took[user]), map(label, lists[user][:_ITEMS])
        print_table(user, ["took last", "recommended"], zip_longest(*both, fillvalue=""))


def _print_state(settings: Settings) -> None:
    """Print what needs a hand, and which model is in use and why."""
    days = day_statuses(Days(settings))
    print_needs(settings, days, _NEEDS, warn)
    click.echo(model_in_use(settings, days))
