"""Helpers: a data folder in a temporary place, with a real DuckDB file."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from mom_pipeline.logs.ingest import IngestResult, ingest_file
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.settings import ColumnSettings, LogSettings, Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

HEADER = "user,item,timestamp\n"
TABLES = {
    "raw_logs": "source_file, line, delivery_day, event_time::VARCHAR, user_id, item_id, weight",
    "quarantine": "source_file, line, delivery_day, text, reason",
    "ingest_ledger": "source_file, delivery_day, size_bytes, sha256, lines, header_lines, "
    "rows_accepted, rows_rejected, rows_set_aside, reject_reasons, settings",
}


def log_file(path: Path, logs_dir: Path) -> LogFile:
    """One of the files that are found in a folder of logs."""
    [file] = [file for file in discover(logs_dir).files if file.path == path]
    return file


class DataFolder:
    """A data folder under test: write logs, ingest them, look at the tables."""

    def __init__(self, root: Path) -> None:
        self.settings: Settings = load_settings(root, {})
        self.settings.logs_dir.mkdir(parents=True, exist_ok=True)

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings)

    def with_logs(self, **changes: object) -> "DataFolder":
        logs = replace(self.settings.logs, **changes)
        self.settings = self.settings.model_copy(update={"logs": logs})
        return self

    def with_columns(self, **names: str) -> "DataFolder":
        return self.with_logs(columns=ColumnSettings(**names))

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.settings.logs_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def ingest(self, name: str) -> IngestResult:
        logs_dir = self.settings.logs_dir
        return ingest_file(self.warehouse, log_file(logs_dir / name, logs_dir))

    def take(self, content: str | bytes, name: str = "2024-03-01.csv") -> IngestResult:
        self.write(name, content)
        return self.ingest(name)

    def take_all(self, deliveries: Iterable[tuple[str, str | bytes]]) -> list[IngestResult]:
        """Ingest named contents one after the other."""
        warehouse, folder = self.warehouse, self.settings.logs_dir
        with warehouse.opened():
            return [
                ingest_file(warehouse, log_file(self.write(name, content), folder))
                for name, content in deliveries
            ]

    def query(self, sql: str) -> list[tuple[object, ...]]:
        with self.warehouse.connect() as connection:
            return connection.execute(sql).fetchall()

    def tables(self) -> dict[str, list[tuple[object, ...]]]:
        """Every table, row for row, except for the moment of ingest."""
        with self.warehouse.connect() as connection:
            return {
                name: connection.execute(f"SELECT {columns} FROM {name} ORDER BY ALL").fetchall()
                for name, columns in TABLES.items()
            }

    def ids(self) -> list[tuple[object, ...]]:
        return self.query("SELECT user_id, item_id FROM raw_logs ORDER BY source_file, line")

    def reasons(self) -> list[tuple[object, ...]]:
        return self.query("SELECT line, reason FROM quarantine ORDER BY source_file, line")


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "data")


@pytest.fixture
def lenient(folder: DataFolder) -> DataFolder:
    """A folder that takes any share of rejects, to look at single bad lines."""
    return folder.with_logs(max_reject_share=1.0)


@pytest.fixture
def new_folder(tmp_path: Path) -> Callable[[str], DataFolder]:
    return lambda name: DataFolder(tmp_path / name)


__all__ = ["HEADER", "DataFolder", "LogSettings", "log_file"]
