"""Somebody else's table as the source: a day is read as it is there, again when it has changed."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
import s3fs

from mom_pipeline.core.errors import MomError
from mom_pipeline.datasets.source import Source
from mom_pipeline.errors import DatasetError
from mom_pipeline.settings import ColumnSettings
from mom_pipeline_tests.data_folder import DataFolder
from mom_pipeline_tests.datasets.postgres import PROGRAMS, server
from mom_pipeline_tests.object_store import BUCKET, object_store, use_store

COLUMNS = ColumnSettings(user="customer", item="sku", timestamp="bought at", weight="n%")
TABLE = 'mart."my orders"'
CREATE = f"""
CREATE SCHEMA mart;
CREATE TABLE {TABLE} (customer BIGINT, sku VARCHAR, "bought at" TIMESTAMPTZ, "n%" DECIMAL(9, 2));
INSERT INTO {TABLE} VALUES
    (1, 'jazz', '2024-02-29 23:30:00+00', 2), (1, 'a "b", c', '2024-03-01 22:30:00+00', 1.5),
    (2, 'jazz', '2024-03-01 23:30:00+00', 1), (NULL, 'pop', '2024-03-01 10:00:00+00', 1)
"""
# Days of a shop an hour ahead of UTC.
FIRST, SECOND = date(2024, 3, 1), date(2024, 3, 2)

Execute = Callable[[str], Any]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    if not PROGRAMS:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    with server(PROGRAMS[-1]) as address:
        yield address


@pytest.fixture(params=["duckdb", "postgres"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Execute]:
    """A database with orders, and what changes it."""
    if request.param == "duckdb":
        address = str(tmp_path / "it's theirs.duckdb")

        def execute(sql: str) -> None:
            with duckdb.connect(address) as connection:
                connection.execute(sql)
    else:
        psycopg, address = pytest.importorskip("psycopg"), request.getfixturevalue("postgres")

        def execute(sql: str) -> None:
            with psycopg.connect(address) as database:
                database.execute(sql)

        execute("DROP SCHEMA IF EXISTS mart CASCADE")
    execute(CREATE)
    return address, execute


def ingested(folder: DataFolder, day: date) -> list[tuple[Any, ...]]:
    folder.ingest(f"{day}.parquet")
    return folder.query(
        "SELECT user_id, item_id, event_time::TIMESTAMP::VARCHAR, weight::DOUBLE FROM raw_logs "
        f"WHERE delivery_day = '{day}' ORDER BY ALL"
    )


def test_a_day_is_read_by_the_zone_of_the_shop_and_again_when_it_changed(
    folder: DataFolder, theirs: tuple[str, Execute]
):
    address, execute = theirs
    source = Source(address, "mart.my orders", COLUMNS)
    assert source.key == ("mart", "my orders")
    folder.settings = source.declared(folder.settings)
    assert folder.settings.logs.columns.weight == "weight"
    settings = folder.with_logs(timezone="Africa/Lagos", max_reject_share=1.0).settings
    known = source.versions(settings, FIRST, SECOND)
    assert list(known) == [FIRST, SECOND]
    assert source.read(settings, FIRST, "") == known[FIRST]
    rows = [("1", 'a "b", c', "2024-03-01 23:30:00", 1.5), ("1", "jazz", "2024-03-01 00:30:00", 2)]
    assert ingested(folder, FIRST) == rows
    assert folder.reasons() == [(3, "no user")]
    file = settings.logs_dir / f"{FIRST}.parquet"
    before = file.stat()
    assert source.read(settings, FIRST, known[FIRST]) == known[FIRST]
    assert file.stat() == before  # nothing was read again
    execute(f"UPDATE {TABLE} SET customer = 3 WHERE sku LIKE 'a%'")
    now = source.versions(settings, FIRST, SECOND)
    assert (now[FIRST] != known[FIRST], now[SECOND]) == (True, known[SECOND])
    assert source.read(settings, FIRST, known[FIRST]) == now[FIRST]
    assert [row[0] for row in ingested(folder, FIRST)] == ["1", "3"]
    execute(f"DELETE FROM {TABLE} WHERE sku <> 'nothing'")
    assert source.versions(settings, FIRST, SECOND) == {}
    assert source.read(settings, FIRST, now[FIRST]) == ""
    assert ingested(folder, FIRST) == []
    assert source.read(settings, SECOND, "") == ""  # a day that never had rows has no file
    assert [path.name for path in settings.logs_dir.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE {}", "orders"),
        ("ALTER TABLE {} DROP COLUMN customer", "has no column 'customer', but sku, bought at, n%"),
        ("ALTER TABLE {} ALTER customer TYPE DOUBLE PRECISION", "has type DOUBLE"),
        (
            'ALTER TABLE {0} DROP COLUMN "bought at"; ALTER TABLE {0} ADD COLUMN "bought at" '
            "VARCHAR; UPDATE {0} SET \"bought at\" = '2024-03-01 alice'",
            "'bought at' has values that are no times",
        ),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(
    folder: DataFolder, theirs: tuple[str, Execute], change: str, said: str
):
    (address, execute) = theirs
    source = Source(address, "mart.my orders", COLUMNS)
    for statement in change.format(TABLE).split("; "):
        execute(statement)
    with pytest.raises(MomError, match=said) as error:
        source.read(folder.settings, FIRST, "")
    assert "alice" not in str(error.value)
    assert "secret" not in str(error.value)
    assert not list(folder.settings.logs_dir.iterdir())


def test_a_server_that_is_away_or_dies_leaves_nothing(folder: DataFolder, postgres: str):
    """The connection breaks in the middle of the rows of a day."""
    psycopg = pytest.importorskip("psycopg")
    with pytest.raises(DatasetError, match=r"127\.0\.0\.1:1/shop orders cannot be read"):
        Source("postgresql://me:secret@127.0.0.1:1/shop", "orders").read(folder.settings, FIRST, "")
    with psycopg.connect(postgres) as database:
        database.execute("DROP SCHEMA IF EXISTS mart CASCADE; CREATE SCHEMA mart")
        database.execute(
            "CREATE VIEW mart.dying AS SELECT n AS \"user\", 'jazz' AS item, "
            "timestamp '2024-03-01' + make_interval(secs => CASE WHEN n = 900000 AND "
            "current_query() LIKE '%COPY%' THEN "
            "pg_terminate_backend(pg_backend_pid())::int ELSE 1 END) AS timestamp "
            "FROM generate_series(1, 1000000) AS n"
        )
    source = Source(postgres, "mart.dying")
    assert source.versions(folder.settings, FIRST, FIRST)
    with pytest.raises(DatasetError, match=r"mart\.dying cannot be read: .*terminat"):
        source.read(folder.settings, FIRST, "")
    assert not list(folder.settings.logs_dir.iterdir())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_by_pattern(folder: DataFolder, tmp_path: Path, kind: str):
    theirs = tmp_path / "dwh"
    for day in (FIRST, SECOND):
        (theirs / f"day={day}").mkdir(parents=True)
        sql = f"SELECT 'u' || i AS u, 'jazz' AS y, '{day} 10:00:00' AS t FROM range(3) AS r(i)"
        duckdb.sql(f"COPY ({sql}) TO '{theirs}/day={day}/part-0.{kind}'")
    columns = ColumnSettings(user="u", item="y", timestamp="t")
    source = Source(f"{theirs}/day={{day}}/*.{kind}", columns=columns)
    assert (source.key, source.name) == ((), source.address)
    known = source.versions(folder.settings, FIRST, FIRST)
    assert list(known) == [FIRST]
    assert source.read(folder.settings, FIRST, "") == known[FIRST]
    assert [row[0] for row in ingested(folder, FIRST)] == ["u0", "u1", "u2"]
    (theirs / f"day={FIRST}" / f"part-0.{kind}").unlink()
    assert source.read(folder.settings, FIRST, known[FIRST]) == ""
    assert ingested(folder, FIRST) == []


def test_files_of_an_object_store(
    folder: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Parts of a day below a pattern; one that is replaced is read again."""
    columns = ColumnSettings(user="u", item="y", timestamp="t")
    source = Source(f"s3://{BUCKET}/dwh/day={{day}}/*.parquet", columns=columns)
    with object_store(tmp_path / "store.log") as store:
        use_store(monkeypatch, store.url)
        system = s3fs.S3FileSystem()

        def put(name: str, user: str) -> None:
            sql = f"SELECT '{user}' AS u, 'jazz' AS y, '{FIRST} 10:00:00' AS t"
            duckdb.sql(f"COPY ({sql}) TO '{tmp_path}/{name}'")
            system.put_file(f"{tmp_path}/{name}", f"{BUCKET}/dwh/day={FIRST}/{name}")

        put("part-0.parquet", "ann")
        put("part-1.parquet", "ben")
        known = source.versions(folder.settings, FIRST, SECOND)
        assert list(known) == [FIRST]
        assert source.read(folder.settings, FIRST, "") == known[FIRST]
        assert [row[0] for row in ingested(folder, FIRST)] == ["ann", "ben"]
        put("part-1.parquet", "eve")
        assert source.read(folder.settings, FIRST, known[FIRST]) != known[FIRST]
        assert [row[0] for row in ingested(folder, FIRST)] == ["ann", "eve"]


def test_a_source_is_a_table_or_files():
    for address, table in (("shop.duckdb", ""), ("orders/{day}.csv", "orders")):
        with pytest.raises(DatasetError, match=r"a table of a database, or files with \{day\}"):
            Source(address, table)
