"""The DuckDB file between processes, and transactions."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import duckdb
import pytest

from mom_pipeline.errors import WarehouseBusy, WarehouseUnreadable
from mom_pipeline.warehouse.connection import FORMAT, scalar
from mom_pipeline_tests.data_folder import DataFolder

_HOLD = """
import sys, duckdb
connection = OPEN
print("held", flush=True)
sys.stdin.readline()
"""


def hold(folder: DataFolder, opened: str = "duckdb.connect(sys.argv[1])") -> subprocess.Popen[str]:
    folder.take("user,item,timestamp\n")
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD.replace("OPEN", opened), str(folder.warehouse.path)],
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
    folder.settings = folder.settings.model_copy(update={"warehouse": warehouse})
    return folder


def test_a_held_warehouse_is_an_error_that_names_the_holder_and_opens_when_released(
    folder: DataFolder,
) -> None:
    process = hold(folder)
    assert process.stdin is not None
    with pytest.raises(WarehouseBusy, match=rf"PID {process.pid}\).*waited 0.2 s"):
        with_wait(folder, 0.2).query("SELECT 1")
    process.stdin.write("\n")
    process.stdin.close()
    assert with_wait(folder, 60).query("SELECT count(*) FROM ingest_ledger") == [(1,)]
    process.wait()


def test_a_transaction_is_all_or_nothing(folder: DataFolder) -> None:
    insert = "INSERT INTO user_dictionary VALUES (0, 'a', DATE '2024-03-01')"

    def insert_two(second: str) -> None:
        with folder.warehouse.connect() as connection:
            connection.execute(insert)
            connection.execute(second)

    with pytest.raises(duckdb.ConversionException):
        insert_two(insert.replace("2024-03-01", "no date"))
    assert folder.query("SELECT count(*) FROM user_dictionary") == [(0,)]
    insert_two(insert)
    assert folder.query("SELECT count(*) FROM user_dictionary") == [(2,)]


def test_small_pieces_of_work_share_an_open_file_and_a_failure_undoes_its_own(
    folder: DataFolder,
) -> None:
    warehouse = folder.warehouse
    written_beside = warehouse.path.with_name("warehouse.duckdb.wal")
    insert = "INSERT INTO user_dictionary VALUES ($n, 'a', DATE '2024-03-01')"
    with warehouse.opened():
        for number in range(5):
            with warehouse.connect() as connection:
                connection.execute("CREATE TEMP TABLE own AS SELECT 1")  # of this piece alone
                connection.execute(insert, {"n": number})
            with warehouse.reading() as connection:
                assert scalar(connection, "SELECT count(*) FROM user_dictionary") == number + 1
        with pytest.raises(duckdb.CatalogException), warehouse.connect() as connection:
            connection.execute(f"{insert.replace('$n', '9')}; FROM nothing")
        assert written_beside.exists()
    assert not written_beside.exists()
    assert folder.query("SELECT count(*) FROM user_dictionary") == [(5,)]


def test_the_session_is_in_the_declared_zone_also_in_a_file_kept_open(folder: DataFolder) -> None:
    warehouse = folder.with_logs(timezone="Asia/Taipei").warehouse
    zone = "SELECT current_setting('TimeZone')"
    assert folder.query(zone) == [("Asia/Taipei",)]
    with warehouse.opened(), warehouse.connect() as connection:
        assert connection.execute(zone).fetchall() == [("Asia/Taipei",)]


def test_a_damaged_warehouse_is_no_lock(folder: DataFolder) -> None:
    folder.settings.data_dir.mkdir(parents=True, exist_ok=True)
    folder.warehouse.path.write_bytes(b"not a database" * 1000)
    with pytest.raises(WarehouseUnreadable, match="remove it and ingest again"):
        folder.query("SELECT 1")


def test_who_reads_cannot_write(folder: DataFolder) -> None:
    with pytest.raises(WarehouseUnreadable), folder.warehouse.reading():
        pass
    folder.take("user,item,timestamp\n")
    bytes_before = folder.warehouse.path.read_bytes()
    with folder.warehouse.reading() as connection:
        connection.execute("CREATE TEMP TABLE own AS FROM raw_logs")
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            connection.execute("DELETE FROM ingest_ledger")
    assert folder.warehouse.path.read_bytes() == bytes_before


def test_readers_read_together(folder: DataFolder) -> None:
    process = hold(folder, "duckdb.connect(sys.argv[1], read_only=True)")
    with with_wait(folder, 0.2).warehouse.reading() as connection:
        assert connection.execute("SELECT count(*) FROM ingest_ledger").fetchall() == [(1,)]
    process.communicate("\n")


def test_who_reads_while_this_process_writes_sees_what_was_committed(folder: DataFolder) -> None:
    count = "SELECT count(*) FROM user_dictionary"
    with folder.warehouse.connect() as writing:
        writing.execute("INSERT INTO user_dictionary VALUES (0, 'a', DATE '2024-03-01')")
        with folder.warehouse.reading() as connection:
            assert scalar(connection, count) == 0
    assert folder.query(count) == [(1,)]


def test_writing_waits_until_this_process_reads_no_more(folder: DataFolder) -> None:
    folder.take("user,item,timestamp\n")
    with ThreadPoolExecutor(1) as threads:
        with folder.warehouse.reading():
            with pytest.raises(WarehouseBusy, match="held by this process"):
                with_wait(folder, 0.2).query("SELECT 1")
            waiting = threads.submit(with_wait(folder, 60).query, "SELECT 1")
        assert waiting.result() == [(1,)]


@pytest.mark.parametrize("access", ["reading", "connect"])
def test_a_warehouse_of_the_version_before_is_brought_up_to_date(
    folder: DataFolder, access: str
) -> None:
    """Rows, files, decisions and positions stay; lists and what was made of days go."""
    folder.take("user,item,timestamp\nu,i,2024-03-01\n")
    with folder.warehouse.opened() as connection:
        connection.execute("INSERT INTO accepted_days VALUES ('2024-03-01', 'sha', now())")
        connection.execute("INSERT INTO user_dictionary VALUES (0, 'u', '2024-03-01')")
        connection.execute("UPDATE schema_version SET version = $v", {"v": 4})
        connection.execute("DROP TABLE recommendations")
        connection.execute("CREATE TABLE recommendations (day DATE, user_id VARCHAR)")
        connection.execute("INSERT INTO recommendations VALUES ('2024-03-01', 'u')")
        connection.execute("DROP TABLE materializations")
    kept = folder.tables()
    with getattr(folder.warehouse, access)() as connection:
        assert scalar(connection, "SELECT version FROM schema_version") == FORMAT
        for table, rows in {
            "recommendations": 0,
            "materializations": 0,
            "accepted_days": 1,
        }.items():
            assert scalar(connection, f"SELECT count(*) FROM {table}") == rows
        assert connection.execute("SELECT user_id FROM user_dictionary").fetchall() == [("u",)]
    assert folder.tables() == kept


def test_a_warehouse_of_a_later_version_is_refused(folder: DataFolder) -> None:
    with folder.warehouse.connect() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    for access in (folder.warehouse.connect, folder.warehouse.reading):
        with (
            pytest.raises(WarehouseUnreadable, match=r"format 99, made by a later"),
            access(),
        ):
            pass


def test_the_tables_are_made_once(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.take("user,item,timestamp\n")
    monkeypatch.setattr("mom_pipeline.warehouse.connection.load_sql", None)
    assert folder.query("SELECT count(*) FROM ingest_ledger") == [(1,)]
