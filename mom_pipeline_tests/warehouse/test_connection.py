"""The DuckDB file between processes, and transactions."""

import subprocess
import sys
from dataclasses import replace

import duckdb
import pytest

from mom_pipeline.errors import WarehouseBusy, WarehouseUnreadable
from mom_pipeline.warehouse.connection import transaction
from mom_pipeline_tests.data_folder import DataFolder

_HOLD = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


def hold(folder: DataFolder) -> subprocess.Popen[str]:
    folder.take("user,item,timestamp\n")
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder.warehouse.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def with_wait(folder: DataFolder, seconds: float) -> DataFolder:
    warehouse = replace(folder.settings.warehouse, lock_wait_seconds=seconds)
    folder.settings = replace(folder.settings, warehouse=warehouse)
    return folder


def test_a_held_warehouse_is_an_error_that_names_the_holder(folder: DataFolder) -> None:
    process = hold(folder)
    try:
        with pytest.raises(WarehouseBusy, match=rf"PID {process.pid}\).*waited 0.2 s"):
            with_wait(folder, 0.2).query("SELECT 1")
    finally:
        process.communicate("\n")


def test_a_warehouse_that_is_released_in_time_is_opened(folder: DataFolder) -> None:
    process = hold(folder)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.close()
    assert with_wait(folder, 60).query("SELECT count(*) FROM ingest_ledger") == [(1,)]
    process.wait()


def test_a_transaction_is_all_or_nothing(folder: DataFolder) -> None:
    insert = "INSERT INTO user_dictionary VALUES (0, 'a', DATE '2024-03-01')"

    def insert_two(second: str) -> None:
        with folder.warehouse.connect() as connection, transaction(connection):
            connection.execute(insert)
            connection.execute(second)

    with pytest.raises(duckdb.ConversionException):
        insert_two(insert.replace("2024-03-01", "no date"))
    assert folder.query("SELECT count(*) FROM user_dictionary") == [(0,)]
    insert_two(insert)
    assert folder.query("SELECT count(*) FROM user_dictionary") == [(2,)]


def test_a_shared_connection_is_kept_for_its_turn_and_replaced_after_a_failure(
    folder: DataFolder,
) -> None:
    with folder.warehouse.sharing(seconds=3600) as connect:
        with connect() as first, connect() as second:
            assert first is second
        with pytest.raises(duckdb.CatalogException), connect() as third:
            third.execute("SELECT * FROM nothing")
        with connect() as fourth:
            assert fourth is not third
            fourth.execute("SELECT * FROM raw_logs").fetchall()


def test_a_shared_connection_lets_other_processes_in(folder: DataFolder) -> None:
    with folder.warehouse.sharing(seconds=0) as connect:
        with connect() as connection:
            connection.execute("SELECT 1").fetchall()
        process = hold(folder)  # another process can open the file meanwhile
        process.communicate("\n")
        with connect() as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_damaged_warehouse_is_no_lock(folder: DataFolder) -> None:
    folder.settings.data_dir.mkdir(parents=True, exist_ok=True)
    folder.warehouse.path.write_bytes(b"not a database" * 1000)
    with pytest.raises(WarehouseUnreadable, match="remove it and ingest again"):
        folder.query("SELECT 1")


def test_the_session_is_in_the_declared_zone(folder: DataFolder) -> None:
    zone = folder.with_logs(timezone="Asia/Taipei").query("SELECT current_setting('TimeZone')")
    assert zone == [("Asia/Taipei",)]
