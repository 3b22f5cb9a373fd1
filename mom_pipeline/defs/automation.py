"""Jobs over the assets, and what starts them: schedules, and a sensor on the log files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from mom_pipeline.artifacts.lock import writer_of
from mom_pipeline.defs.daily import content_hash
from mom_pipeline.defs.names import Names, range_tags
from mom_pipeline.defs.resources import DataFolder, OpenFolder
from mom_pipeline.errors import LogFileError, WarehouseBusy
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


def full_config(names: Names) -> Mapping[str, Any]:
    """The run config that computes every day of a run from all users."""
    op = names.key("m2_statistics").to_python_identifier()
    return {"ops": {op: {"config": {"full": True}}}}


class Automation:
    """Jobs, schedules and the sensor of one pipeline, under its names."""

    def __init__(
        self, names: Names, partitions: dg.DailyPartitionsDefinition, schedule: str | None
    ) -> None:
        self.names, self.partitions = names, partitions
        every_day = dg.AssetSelection.assets(*(names.key(asset) for asset in INPUTS))
        comparison = dg.AssetSelection.assets(names.key("model_comparison"))
        self.daily_update = dg.define_asset_job(
            names.of("daily_update"),
            every_day,
            description="Every asset of a day, or of a range of days in one run.",
        )
        self.full_rebuild = dg.define_asset_job(
            names.of("full_rebuild"),
            every_day,
            config=dict(full_config(names)),
            description="Every asset of a day, its moments from all users: a fresh basis.",
        )
        self.comparison = dg.define_asset_job(
            names.of("comparison"),
            comparison,
            description="The method beside its rivals: minutes, and so not a part of every day.",
        )
        self.jobs = [self.daily_update, self.full_rebuild, self.comparison]
        self.schedules = self._schedules(schedule) if schedule else []
        self.sensors = [self._sensor()]

    def _schedules(self, cron: str) -> list[dg.ScheduleDefinition]:
        names, key = self.names, {self.names.resource}
        zone = self.partitions.timezone

        def nightly(context: dg.ScheduleEvaluationContext) -> Any:
            """Each night, every day that is missing or stale, as `mom-pipeline update` does."""
            behind = days_behind(day_statuses(self._folder(context).days))
            if not behind:
                yield dg.SkipReason("no day is missing or stale")
            for ends in stretches(behind):
                yield dg.RunRequest(run_key=content_hash(ends), tags=range_tags(*ends))

        def newest(context: dg.ScheduleEvaluationContext, config: Mapping[str, Any]) -> Any:
            """The newest day that has logs."""
            folder = self._folder(context).settings.logs_dir
            days = {str(file.day) for file in discover(folder).files}
            present = days & set(self.partitions.get_partition_keys())
            if not present:
                return dg.SkipReason(f"no log file in {folder} yet")
            return dg.RunRequest(partition_key=max(present), run_config=dict(config))

        return [
            dg.ScheduleDefinition(
                name=names.of("daily_update_schedule"),
                job=self.daily_update,
                cron_schedule=cron,
                execution_timezone=zone,
                execution_fn=nightly,
                required_resource_keys=key,
            ),
            dg.ScheduleDefinition(
                name=names.of("weekly_rebuild_schedule"),
                job=self.full_rebuild,
                cron_schedule="0 5 * * 0",
                execution_timezone=zone,
                execution_fn=lambda context: newest(context, full_config(names)),
                required_resource_keys=key,
            ),
            dg.ScheduleDefinition(
                name=names.of("weekly_comparison_schedule"),
                job=self.comparison,
                cron_schedule="0 6 * * 0",
                execution_timezone=zone,
                execution_fn=lambda context: newest(context, {}),
                required_resource_keys=key,
            ),
        ]

    def _folder(
        self, context: dg.ScheduleEvaluationContext | dg.SensorEvaluationContext
    ) -> OpenFolder:
        resource: DataFolder = getattr(context.resources, self.names.resource)
        return resource.opened

    def _sensor(self) -> dg.SensorDefinition:
        def look(context: dg.SensorEvaluationContext) -> Any:
            """Ask for the days that are behind, those of `mom-pipeline update`.

            A run that fails is asked for again, at most `MAX_ATTEMPTS` times while nothing changes.
            """
            folder = self._folder(context)
            try:
                files = discover(folder.settings.logs_dir).files
                declare_first_day(folder.settings, [file.day for file in files])
                if writer := writer_of(folder.settings):
                    return dg.SkipReason(f"{writer} writes to the data folder")
                if context.instance.get_runs_count(dg.RunsFilter(statuses=_WAITING)):
                    return dg.SkipReason("a run waits to start")
                behind = days_behind(day_statuses(folder.days))
                failed = _failures(folder, behind)
            except (LogFileError, WarehouseBusy, OSError) as error:
                return dg.SkipReason(f"the log files could not be compared: {error}")
            if not behind:
                return dg.SkipReason("no day is missing or stale")
            if hindrance := self._hindrance(behind, failed):
                return dg.SkipReason(hindrance)
            paths = [file.path for file in files]
            seen = content_hash(failed, [_size_and_time(path) for path in paths], behind)
            return [
                dg.RunRequest(run_key=content_hash(seen, ends), tags=range_tags(*ends))
                for ends in stretches(behind)
            ]

        return dg.SensorDefinition(
            name=self.names.of("log_file_sensor"),
            evaluation_fn=look,
            job=self.daily_update,
            minimum_interval_seconds=30,
            required_resource_keys={self.names.resource},
            description="New, changed or late log files: all days that are behind, in one run.",
        )

    def _hindrance(self, behind: Sequence[DayStatus], failed: int) -> str:
        """Why days that are behind are not asked for; "" when they are."""
        keys, ends = set(self.partitions.get_partition_keys()), (behind[0].day, behind[-1].day)
        for day in ends:
            if str(day) not in keys:
                return f"{day} is no partition of these definitions; reload them"
        if failed >= MAX_ATTEMPTS:
            return (
                f"the run of {ends[0]} to {ends[1]} failed {failed} times; look at the page Runs. "
                "It is asked for again when a file changes, or start it by hand"
            )
        return ""


def _failures(folder: OpenFolder, behind: Sequence[DayStatus]) -> int:
    """How many of the newest runs that reach these days failed since the last change of a file."""
    if not behind or not folder.warehouse.exists():
        return 0
    settings = folder.settings
    paths = [settings.data_dir / SETTINGS_FILE]
    paths += [file.path for file in discover(settings.logs_dir).files]
    changed = max(_size_and_time(path)[2] for path in paths) / 1e9
    with folder.warehouse.reading() as connection:
        newest = [
            run for run in reversed(runs(connection)) if run.first <= behind[0].day <= run.last
        ]
    failed = 0
    for run in newest:
        if run.failure == "" or run.began < changed:
            break
        failed += 1
    return failed


def _size_and_time(path: Path) -> tuple[str, int, int]:
    """Name, size and time of the last change; a change of the contents always sets the latter."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return str(path), 0, 0
    return str(path), status.st_size, status.st_ctime_ns
