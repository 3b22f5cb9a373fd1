"""The component, by the commands of `dg` in a project of its own, and the page that shows them."""

import os
import re
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from mom_pipeline.defs.partitions import range_tags
from mom_pipeline_tests.datasets.postgres import PROGRAMS, server
from mom_pipeline_tests.defs.conftest import QUIET, SETTINGS_FILE

PAGE = Path(__file__).parent.parent / "mom_pipeline" / "defs" / "README.md"
COMPONENT = "mom_pipeline.components.RecommenderComponent"
# People with two tastes of five, and more of what comes first in each.
ORDERS = """
SELECT 'u' || u AS customer, 'item-' || (floor(30 * r * r) * 5 + (u + e % 2) % 5)::INT AS sku,
    TIMESTAMPTZ '2024-03-01 09:00:00+00' + INTERVAL (e % 5) DAY + INTERVAL (u % 600) MINUTE
        AS ordered_at
FROM (SELECT u, e, (hash(u * 31 + e) % 10007) / 10007 AS r FROM range(400) a(u), range(12) b(e))"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, as `create-dagster` makes it."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), *map(str, PROGRAMS[-1:])])
    monkeypatch.setenv("PATH", programs + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("PYTHONPATH", "src")  # in place of an installation
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv("DG_CLI_TELEMETRY_ENABLED", "false")
    monkeypatch.chdir(tmp_path)
    said("create-dagster project shop --no-uv-sync")
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)  # of another test's project
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def said(command: str, code: int = 0) -> str:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_it_is_scaffolded_checked_and_makes_lists(project: Path, monkeypatch: pytest.MonkeyPatch):
    with duckdb.connect("dwh.duckdb") as database:
        database.execute(f"CREATE TABLE orders AS {ORDERS}")
    said(
        f"dg scaffold defs {COMPONENT} recs --address dwh.duckdb --user customer --item sku "
        "--timestamp ordered_at --start-date 2024-03-01 --to lists.duckdb"
    )
    written = project / "src" / "shop" / "defs" / "recs" / "defs.yaml"
    text = written.read_text()
    names = re.findall(r"^  (\w+):", text, re.MULTILINE)
    assert names == ["source", "data_dir", "key_prefix", "schedule", "outputs"]
    for right, wrong, sentence in (
        ("data_dir:", "data_folder:", "'data_folder' was unexpected"),
        ("user:", "usr:", "columns.usr\n  Unexpected keyword argument"),
    ):
        written.write_text(text.replace(right, wrong))
        assert sentence in said("dg check defs", code=1)
    written.write_text(text)
    (project / "data" / "recs").mkdir(parents=True)
    (project / "data" / "recs" / "pipeline.toml").write_text(SETTINGS_FILE)
    monkeypatch.syspath_prepend("src")
    defs = dg.load_from_defs_folder(path_within_project=project / "src" / "shop")
    with dg.DagsterInstance.ephemeral() as instance:
        done = defs.resolve_job_def("recs_daily_update").execute_in_process(
            instance=instance,
            tags=range_tags(date(2024, 3, 1), date(2024, 3, 2)),
            run_config=QUIET,
        )
    assert done.success
    with duckdb.connect("lists.duckdb") as database:
        days = database.execute("SELECT DISTINCT day::VARCHAR FROM mom_lists").fetchall()
        people = database.execute("SELECT count(DISTINCT user_id) FROM mom_lists").fetchall()
    assert (days, people) == ([("2024-03-02",)], [(400,)])


def test_the_attributes_of_the_page_are_those_there_are(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    """Their asset is the source, and what is written are assets that theirs can depend on."""
    [block] = re.findall(r"<!-- defs.yaml -->\n```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    folder = project / "src" / "shop" / "defs" / "recs"
    folder.mkdir()
    (folder / "defs.yaml").write_text(block)
    monkeypatch.setenv("SHOP_DATABASE", "postgresql://localhost/shop")
    monkeypatch.syspath_prepend("src")
    defs = dg.load_from_defs_folder(path_within_project=project / "src" / "shop")
    graph = defs.get_repository_def().asset_graph
    logs, lists = (
        graph.get(dg.AssetKey(["recs", "raw_logs"])),
        dg.AssetKey(["recs", "mart", "lists"]),
    )
    assert logs.parent_keys == {dg.AssetKey(["dwh", "orders"])}
    made = dg.AssetKey(["recs", "recommendations"])
    assert graph.get(made).child_keys >= {lists, dg.AssetKey(["recs", "mom_groups"])}
    assert defs.resolve_schedule_def("recs_daily_update_schedule").cron_schedule == "0 3 * * *"


@pytest.mark.long
@pytest.mark.skipif(not PROGRAMS, reason="needs PostgreSQL: apt-get install postgresql")
def test_from_an_empty_project_to_lists_in_postgresql(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    """The commands of the page, as written, but for the address and the installation."""
    psycopg = pytest.importorskip("psycopg")
    [block] = re.findall(r"<!-- commands -->\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = block.splitlines()
    assert len(commands) <= 6
    with server(PROGRAMS[-1]) as address:
        with psycopg.connect(address) as database, database.cursor() as cursor:
            cursor.execute("CREATE TABLE orders (customer text, sku text, ordered_at timestamptz)")
            with cursor.copy("COPY orders FROM STDIN") as copy:
                for row in duckdb.sql(ORDERS).fetchall():
                    copy.write_row(row)
        begun = time.monotonic()
        for command in commands:
            if command.startswith("export"):
                monkeypatch.setenv("SHOP_DATABASE", address)
            elif not command.startswith("pip install"):
                output = said(command)
        assert time.monotonic() - begun < 180
        assert "(10 rows)" in output
        with psycopg.connect(address) as database:
            found = database.execute("SELECT count(DISTINCT user_id), max(day) FROM mom_lists")
            people, day = found.fetchone() or ()
    assert (people, str(day)) == (400, "2024-03-05")
