"""A folder of the version before: what people brought and decided is carried over."""

import json
import shutil
import zipfile
from pathlib import Path

import duckdb
import pytest

from mom_pipeline.cli.run import ingest_new
from mom_pipeline.errors import WarehouseUnreadable
from mom_pipeline.serving.registry import PERSON, ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli import stored
from mom_pipeline_tests.cli.conftest import mom, rows, statuses

# What the tables of schema 4 had that those of today have not.
AS_BEFORE = """
DROP VIEW admitted_logs;
DROP TABLE excluded_days; DROP TABLE materializations; DROP TABLE runs;
DROP TABLE day_figures; DROP TABLE recommendations;
CREATE TABLE day_figures (day DATE, judge VARCHAR, figures VARCHAR);
CREATE TABLE held_days (day DATE, judge VARCHAR, reason VARCHAR);
CREATE VIEW admitted_logs AS
    SELECT * FROM raw_logs WHERE delivery_day NOT IN (SELECT day FROM held_days);
CREATE TABLE dictionary_sources (source_file VARCHAR, sha256 VARCHAR, settings VARCHAR);
CREATE TABLE recommendations (day DATE, model VARCHAR, user_id VARCHAR);
CREATE TABLE finished_days (asset VARCHAR, day DATE, made_from VARCHAR);
INSERT INTO held_days VALUES ('2024-03-04', 'rows', 'it was unusual');
INSERT INTO recommendations VALUES ('2024-03-04', 'x', 'somebody');
UPDATE schema_version SET version = 4;
"""
KEPT = ("raw_logs", "ingest_ledger", "quarantine", "accepted_days", "refused_files")


@pytest.fixture
def before(shop: Path) -> Path:
    """Rows and decisions, a version that a person chose, an erasure; arrays of another form."""
    small = "user,item,timestamp\nben-00001,jazz-001,2024-03-05T10:00:00\n"
    for day in ("05", "06"):
        (shop / "logs" / f"2024-03-{day}.csv").write_text(small.replace("03-05", f"03-{day}"))
    settings = load_settings(shop, {})
    ingest_new(settings)
    mom(shop, "drop", "2024-03-05")
    mom(shop, "accept", "2024-03-05")
    ingest_new(settings)
    mom(shop, "drop", "2024-03-06")
    mom(shop, "promote", ModelRegistry(shop / "models").names()[0])
    (shop / "erasures").mkdir()
    (shop / "erasures" / "salt").write_text("salt\n")
    with duckdb.connect(str(shop / "warehouse.duckdb")) as connection:
        connection.execute(AS_BEFORE)
    shutil.rmtree(shop / "artifacts")
    for asset in ("m2_statistics", "decomposition"):
        day = shop / "artifacts" / asset / "2024-03-04"
        (day / "0123").mkdir(parents=True)
        (day / "current").write_text("0123")
    home = shop / "dagster_home"
    (home / "dagster.yaml").write_text(
        "# Written by mom-pipeline\nstorage: mom_pipeline.dagster_storage\n"
    )
    (home / "history" / "runs.db").write_bytes(b"of another version")
    return shop


def test_its_days_are_computed_again_and_nothing_of_people_is_lost(before):
    champion = ModelRegistry(before / "models").champion_version()
    kept = {table: rows(before, f"FROM {table} ORDER BY ALL") for table in KEPT}
    assert all(kept[table] for table in ("raw_logs", "accepted_days", "refused_files"))
    said = mom(before, "update").stderr
    assert said.count("is of an earlier version: 6 days, 2024-03-01 to 2024-03-06") == 1
    assert said.count("history is of an older version and begins anew") == 1
    assert {table: rows(before, f"FROM {table} ORDER BY ALL") for table in KEPT} == kept
    assert list(statuses(before).values()) == ["fresh"] * 5 + ["excluded"]  # the dropped one
    change = ModelRegistry(before / "models").history()[-1]
    assert (change.version, change.by) == (champion, PERSON)
    assert rows(before, "SELECT DISTINCT model FROM recommendations") == [(champion,)]
    assert (before / "erasures" / "salt").read_text() == "salt\n"
    assert not list(before.glob("artifacts/*/*/current"))
    again = mom(before, "update")
    assert "Nothing to compute" in again.stdout
    assert "earlier version" not in again.stderr


@pytest.mark.parametrize("archive", sorted(Path(stored.__file__).parent.glob("format_*.zip")))
def test_a_stored_folder_is_updated_rolled_back_and_erased_from(archive, tmp_path):
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder := tmp_path / "data")
    before = [change.version for change in ModelRegistry(folder / "models").history()]
    people = rows(folder, "SELECT DISTINCT user_id FROM recommendations")
    mom(folder, "recommend", "ben-00027")
    mom(folder, "rollback")
    mom(folder, "promote", "--auto")
    assert ModelRegistry(folder / "models").champion_version() == before[-2]
    assert rows(folder, "SELECT DISTINCT user_id FROM recommendations") != []
    line = "user,item,timestamp\nben-00003,jazz-002,2024-03-03T10:00:00\n"
    (folder / "logs" / "2024-03-03-late.csv").write_text(line)
    mom(folder, "update")
    assert list(statuses(folder).values()) == ["fresh"] * 3 + ["excluded"]
    assert mom(folder, "erase", "ben-00027", "--yes", "--json").json["left_in"] == []
    mom(folder, "status", "--verify")
    left = rows(folder, "SELECT DISTINCT user_id FROM recommendations")
    assert set(people) - set(left) >= {("ben-00027",)}
    assert not {("ben-00001",), ("ben-00027",)} & set(left)


def test_a_folder_of_a_later_format_is_refused_and_stays_as_it_is(shop):
    with duckdb.connect(str(shop / "warehouse.duckdb")) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    kept = {path: path.read_bytes() for path in shop.rglob("*.*") if path.is_file()}
    for command in (["update"], ["erase", "ben-00027", "--yes"], ["status"], ["accept", "--all"]):
        said = mom(shop, *command, error=WarehouseUnreadable).stderr
        assert "is of format 99, made by a later version" in said
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_key_that_this_version_has_not_is_named(shop):
    path = shop / "pipeline.toml"
    path.write_text(path.read_text().replace("[matrix]\n", "[matrix]\nno_such_key = 1\n"))
    assert "no_such_key" in mom(shop, "update", code=1).stderr
    assert json.loads((shop / "models" / "champion.json").read_text())["promotions"]
