"""Jobs over the assets, and what starts them: schedules, and a sensor on the log files."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

import dagster as dg

from mom_pipeline.artifacts.lock import writer_of
from mom_pipeline.defs.daily import Names, content_hash
from mom_pipeline.defs.partitions import range_tags
from mom_pipeline.defs.resources import OpenFolder
from mom_pipeline.errors import DatasetError, LogFileError, WarehouseBusy
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.pipeline.days import INPUTS
from mom_pipeline.pipeline.freshness import DayStatus, day_statuses, days_behind, stretches
from mom_pipeline.settings import SETTINGS_FILE
from mom_pipeline.settings_file import declare_first_day
from mom_pipeline.warehouse.materializations import runs

# Runs of the same days that may fail while nothing changes.
MAX_ATTEMPTS = 3
_WAITING = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
]


def full_config(names: Names, *, anew: bool = False) -> Mapping[str, Any]:
    """The run config that computes every day of a run from all users. anew: chooses settings."""
    asked = {"m2_statistics": "full"} | ({"chosen_settings": "anew"} if anew else {})
    ops = {names.key(asset).to_python_identifier(): name for asset, name in asked.items()}
    return {"ops": {op: {"config": {name: True}} for op, name in ops.items()}}


def jobs_of(
    names: Names,
    outputs: Sequence[dg.AssetKey] = (),
    executor: dg.ExecutorDefinition | None = None,
) -> list[Any]:
    """The daily update, the rebuild from all users, and the comparison with other methods."""
    every_day = [*(names.key(asset) for asset in INPUTS), *outputs]
    return [
        dg.define_asset_job(
            names.of(name),
            dg.AssetSelection.assets(*assets),
            config=dict(config),
            description=description,
            executor_def=executor or dg.in_process_executor,
        )
        for name, assets, config, description in (
            ("daily_update", every_day, {}, "Every asset of a day, or of many days in one run."),
            (
                "full_rebuild",
                every_day,
                full_config(names),
                "Every asset of a day, its moments from all users: a fresh basis.",
            ),
            (
                "comparison",
                [names.key("model_comparison")],
                {},
                "The method beside its rivals: minutes, and so not a part of every day.",
            ),
        )
    ]


def schedules_of(
    names: Names, partitions: dg.DailyPartitionsDefinition, jobs: Sequence[Any], cron: str
) -> list[dg.ScheduleDefinition]:
    """The update of each night; the rebuild and the comparison of each Sunday."""

    def nightly(context: dg.ScheduleEvaluationContext) -> Any:
        """Every day that is missing or stale, as `mom-pipeline update` does."""
        folder = _folder(context, names)
        behind = days_behind(day_statuses(folder.days, folder.unread()))
        if not behind:
            yield dg.SkipReason("no day is missing or stale")
        for ends in stretches(behind):
            yield dg.RunRequest(run_key=content_hash(ends), tags=range_tags(*ends))

    def newest(context: dg.ScheduleEvaluationContext, config: Mapping[str, Any]) -> Any:
        """The newest day that has logs."""
        folder = _folder(context, names).settings.logs_dir
        days = {str(file.day) for file in discover(folder).files}
        present = days & set(partitions.get_partition_keys())
        if not present:
            return dg.SkipReason(f"no log file in {folder} yet")
        return dg.RunRequest(partition_key=max(present), run_config=dict(config))

    rebuild, compare = partial(newest, config=full_config(names)), partial(newest, config={})
    looks: tuple[Callable[[dg.ScheduleEvaluationContext], Any], ...] = (nightly, rebuild, compare)
    return [
        dg.ScheduleDefinition(
            name=names.of(name),
            job=job,
            cron_schedule=when,
            execution_timezone=partitions.timezone,
            execution_fn=look,
            required_resource_keys={names.resource},
        )
        for job, name, when, look in zip(
            jobs,
            ("daily_update_schedule", "weekly_rebuild_schedule", "weekly_comparison_schedule"),
            (cron, "0 5 * * 0", "0 6 * * 0"),
            looks,
            strict=True,
        )
    ]


def log_file_sensor(
    names: Names, partitions: dg.DailyPartitionsDefinition, daily_update: Any
) -> dg.SensorDefinition:
    """New, changed or late log files: all days that are behind, in one run."""

    def look(context: dg.SensorEvaluationContext) -> Any:
        """Ask for the days that are behind, those of `mom-pipeline update`.

        A source is looked at when its asset was materialized; the nightly schedule always does.
        A run that fails is asked for again, at most `MAX_ATTEMPTS` times while nothing changes.
        """
        folder = _folder(context, names)
        try:
            writer = writer_of(folder.settings)
            if writer or context.instance.get_runs_count(dg.RunsFilter(statuses=_WAITING)):
                busy = f"{writer} writes to the data folder" if writer else "a run waits to start"
                return dg.SkipReason(busy)
            mark, materialized = _newest_of_source(context, names)
            unread = folder.unread() if mark != (context.cursor or "") else set()
            if not unread:
                context.update_cursor(mark)
            files = discover(folder.settings.logs_dir).files
            declare_first_day(folder.settings, {*unread, *(file.day for file in files)})
            behind = days_behind(day_statuses(folder.days, unread))
            # A change of contents always sets this time.
            paths = [folder.settings.data_dir / SETTINGS_FILE, *(file.path for file in files)]
            times = [path.stat().st_ctime for path in paths if path.exists()]
            changed = max([materialized, *times])
            failed = _failures(folder, behind, changed)
        except (DatasetError, LogFileError, WarehouseBusy, OSError) as error:
            return dg.SkipReason(f"the log files could not be compared: {error}")
        if not behind:
            return dg.SkipReason("no day is missing or stale")
        first, last = behind[0].day, behind[-1].day
        if absent := {str(first), str(last)} - set(partitions.get_partition_keys()):
            return dg.SkipReason(f"{min(absent)} is no partition of these definitions; reload them")
        if failed >= MAX_ATTEMPTS:
            return dg.SkipReason(
                f"the run of {first} to {last} failed {failed} times; look at the page Runs. It is "
                "asked for again when a file changes, or start it by hand"
            )
        return [
            dg.RunRequest(
                run_key=content_hash(changed, failed, behind, ends), tags=range_tags(*ends)
            )
            for ends in stretches(behind)
        ]

    return dg.SensorDefinition(
        name=names.of("log_file_sensor"),
        evaluation_fn=look,
        job=daily_update,
        minimum_interval_seconds=30,
        required_resource_keys={names.resource},
        description=log_file_sensor.__doc__,
    )


def _folder(
    context: dg.ScheduleEvaluationContext | dg.SensorEvaluationContext, names: Names
) -> OpenFolder:
    folder: OpenFolder = getattr(context.resources, names.resource)
    return folder


def _newest_of_source(context: dg.SensorEvaluationContext, names: Names) -> tuple[str, float]:
    """A mark of the newest materialization of the source's asset, and when it was; "" for none."""
    if not names.source:
        return "", 0.0
    found = context.instance.fetch_materializations(names.key("log_files"), limit=1).records
    return (str(found[0].storage_id), found[0].timestamp) if found else ("", 0.0)


def _failures(folder: OpenFolder, behind: Sequence[DayStatus], changed: float) -> int:
    """How many of the newest runs that reach these days failed since the last change of a file."""
    if not behind or not folder.warehouse.exists():
        return 0
    with folder.warehouse.reading() as connection:
        reaching = [run for run in runs(connection) if run.first <= behind[0].day <= run.last]
    lately = takewhile(lambda run: run.failure != "" and run.began >= changed, reversed(reaching))
    return len(list(lately))
