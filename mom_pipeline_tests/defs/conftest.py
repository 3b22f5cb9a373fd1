"""A data folder with small logs, a real DuckDB file and a real Dagster instance in memory."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from mom_pipeline.cli.main import told
from mom_pipeline.defs.automation import full_config
from mom_pipeline.defs.build import build_defs
from mom_pipeline.defs.daily import Names
from mom_pipeline.defs.partitions import range_tags
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.pipeline.days import INPUTS, Days
from mom_pipeline.pipeline.freshness import DayStatus, day_statuses, days_behind, stretches
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

FIRST = date(2024, 3, 1)
N_DAYS = 5
SAMPLE = SampleSettings(
    n_days=N_DAYS, n_users=300, n_items=60, n_components=3, events_per_day=900, seed=4
)
# The anchor stays that of the first day, so that different paths share it.
SETTINGS_FILE = """\
[matrix]
min_item_users = 3
[model]
rows = "counts"
n_components = 3
ranking = "components"
[rebuild]
capture_threshold = 0.0
[serving]
list_length = 5
[evaluation]
horizon_days = 2
cutoffs = [5, 10, 20]
[tuning]
every_days = 0
[promotion]
keep_versions = 10
[artifacts]
retention_days = 0
"""
SERVED = tuple(INPUTS)
# All that the model of a day is made from, and the model.
MODEL = SERVED[: SERVED.index("decomposition") + 1]
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def day(number: int) -> date:
    """The n-th day, from 1."""
    return FIRST + timedelta(days=number - 1)


def lines_of(day: date, *users: str) -> bytes:
    """A log file: some users took an item at ten o'clock."""
    events = "".join(f"{user},jazz-001,{day}T10:00:00\n" for user in users)
    return f"user,item,timestamp\n{events}".encode()


def failures(done: dg.ExecuteInProcessResult) -> list[str]:
    """What the failed steps said."""
    return [
        f"{event.step_key}: {told(event.step_failure_data.error)[0]}"
        for event in done.all_events
        if event.is_step_failure
    ]


def sensor_tick(
    defs: dg.Definitions, instance: dg.DagsterInstance, cursor: str | None = None
) -> Any:
    """What the sensor for new files asks for."""
    repository = defs.get_repository_def()
    with dg.build_sensor_context(
        instance=instance, resources=defs.resources, repository_def=repository, cursor=cursor
    ) as context:
        return defs.get_sensor_def("log_file_sensor").evaluate_tick(context)


def schedule_tick(defs: dg.Definitions, instance: dg.DagsterInstance, name: str) -> Any:
    """What a schedule asks for, at night."""
    with dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime(2024, 3, 10, 5, tzinfo=UTC),
        resources=defs.resources,
        repository_def=defs.get_repository_def(),
    ) as context:
        return defs.get_schedule_def(name).evaluate_tick(context)


class Pipeline:
    """A data folder and an instance: deliver files, run days, look at what came out."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.root = root
        self.instance = instance
        root.mkdir(parents=True, exist_ok=True)
        (root / "pipeline.toml").write_text(SETTINGS_FILE)

    @property
    def settings(self) -> Settings:
        return load_settings(self.root, {})

    @property
    def days(self) -> Days:
        return Days(self.settings)

    def statuses(self) -> dict[date, DayStatus]:
        return {entry.day: entry for entry in day_statuses(self.days)}

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings)

    def configure(self, text: str, replacement: str) -> None:
        path = self.root / "pipeline.toml"
        assert text in path.read_text()
        path.write_text(path.read_text().replace(text, replacement))

    def deliver(self, files: Mapping[str, bytes]) -> None:
        self.settings.logs_dir.mkdir(exist_ok=True)
        for name, content in files.items():
            (self.settings.logs_dir / name).write_bytes(content)

    def run(self, first: int, last: int | None = None, **how: Any) -> dg.ExecuteInProcessResult:
        """Run the n-th day, or several."""
        return self.run_days(str(day(first)), str(day(last or first)), **how)

    def run_days(
        self,
        first: str,
        last: str,
        *,
        only: Sequence[str] | None = None,
        full: bool = False,
        succeeds: bool = True,
    ) -> dg.ExecuteInProcessResult:
        defs = build_defs(self.root, executor=dg.in_process_executor)
        done = defs.resolve_job_def("daily_update").execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey(name) for name in only] if only else None,
            tags=range_tags(date.fromisoformat(first), date.fromisoformat(last)),
            run_config={**QUIET, **(full_config(Names()) if full else {})},
            raise_on_error=False,
        )
        if succeeds:
            assert done.success, failures(done)
        return done

    def behind(self) -> list[tuple[str, str]]:
        """The first and last day of each run of `mom-pipeline update`."""
        ends = stretches(days_behind(day_statuses(self.days)))
        return [(str(first), str(last)) for first, last in ends]

    def update(self) -> None:
        """As `mom-pipeline update` does: once, and nothing is behind."""
        for first, last in self.behind():
            self.run_days(first, last)
        assert self.behind() == []

    def states(self) -> list[str]:
        return [entry.status for entry in self.statuses().values()]

    def versions(self, *assets: str) -> dict[tuple[str, date], str]:
        """What the ledger says of some assets."""
        return {key: made.version for key, made in self.days.made.items() if key[0] in assets}

    def metadata(self, asset: str, number: int) -> dict[str, Any]:
        """The newest metadata of an asset and a day, as the UI shows them."""
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[str(day(number))]), limit=1
        ).records
        found = records[0].asset_materialization
        assert found is not None
        return {name: value.value for name, value in found.metadata.items()}

    def mode(self, number: int) -> str:
        return str(self.metadata("m2_statistics", number)["mode"])

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self.warehouse.connect() as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture(scope="session")
def log_files() -> dict[str, bytes]:
    """The final content of every log file."""
    return {delivery.name: delivery.content for delivery in sample_deliveries(SAMPLE)}


@pytest.fixture(scope="session")
def backfilled(
    tmp_path_factory: pytest.TempPathFactory, log_files: Mapping[str, bytes]
) -> Iterator[Pipeline]:
    """All days in one run, in an instance of its own. Only to be looked at."""
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = Pipeline(tmp_path_factory.mktemp("backfilled"), instance)
        pipeline.deliver(log_files)
        pipeline.run(1, N_DAYS)
        yield pipeline


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Pipeline]:
    """A folder without logs."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield Pipeline(tmp_path / "empty", instance)


@pytest.fixture
def copied(tmp_path: Path, backfilled: Pipeline) -> Iterator[Pipeline]:
    """A copy of the finished folder, to be changed; its instance knows nothing yet."""
    shutil.copytree(backfilled.root, tmp_path / "copied")
    with dg.DagsterInstance.ephemeral() as instance:
        yield Pipeline(tmp_path / "copied", instance)
