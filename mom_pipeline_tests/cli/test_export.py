"""`mom-pipeline export`: the lists and groups of everybody, wherever they are to go."""

import csv
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result

from mom_pipeline import Recommender
from mom_pipeline.cli.export import NotExported
from mom_pipeline.cli.main import cli
from mom_pipeline.serving.lists import export_path
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings

FORMULA, NAME = "=1+1", "@SUM(A1)"


@pytest.fixture
def folder(computed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The computed sample, looked at from a folder of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return computed


def export(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["export", *arguments], env={"MOM_DATA_DIR": str(folder)})


def refused(folder: Path, *arguments: str) -> str:
    """The sentence of a refusal, which leaves nothing behind."""
    before = sorted(Path().iterdir())
    done = export(folder, *arguments)
    assert isinstance(done.exception, NotExported), done.output
    assert sorted(Path().iterdir()) == before
    return str(done.exception)


def stored(folder: Path) -> list[tuple[object, ...]]:
    """Everybody's lists as the table has them."""
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute(
            "SELECT user_id, rank, item_id FROM recommendations ORDER BY user_id, rank"
        ).fetchall()


def registry(folder: Path) -> ModelRegistry:
    return ModelRegistry(folder / "models")


def test_lists_are_those_of_the_model_in_use_in_every_format(folder: Path):
    expected = stored(folder)
    for kind in ("csv", "parquet", "jsonl"):
        done = export(folder, "lists", "--format", kind)
        assert done.exit_code == 0, done.output
        assert f"{len(expected):,} rows" in done.output
    with Path("lists.csv").open(newline="") as lines:
        found = [(r["user_id"], int(r["rank"]), r["item_id"]) for r in csv.DictReader(lines)]
    assert found == expected
    records = [json.loads(line) for line in Path("lists.jsonl").read_text().splitlines()]
    assert [(r["user_id"], r["rank"], r["item_id"]) for r in records] == expected
    columns = "SELECT user_id, rank, item_id FROM 'lists.parquet' ORDER BY user_id, rank"
    assert duckdb.sql(columns).fetchall() == expected
    assert export(folder, "lists", "--to", "two.csv", "--n", "2").exit_code == 0
    with Path("two.csv").open(newline="") as lines:
        assert [r["rank"] for r in csv.DictReader(lines)] == ["1", "2"] * len(
            {e[0] for e in expected}
        )


def test_groups_are_the_memberships_of_everybody(folder: Path):
    assert export(folder, "groups", "--to", "groups.parquet").exit_code == 0
    recommender, served = Recommender.open(folder), registry(folder).champion()
    known = np.diff(served.histories.indptr) > 0
    users, shares = served.user_ids[known], served.model.memberships(served.histories[known])
    sql = "SELECT user_id, group_number, share, name FROM 'groups.parquet' WHERE rank = 1"
    found = {user: (group, share, name) for user, group, share, name in duckdb.sql(sql).fetchall()}
    assert set(found) == set(users)
    names = recommender.explorer.group_names
    for user, row in zip(users, shares, strict=True):
        best = int(row.argmax())
        assert found[user] == (best + 1, pytest.approx(row[best]), names[best])
    sums = duckdb.sql("SELECT sum(share) FROM 'groups.parquet' GROUP BY user_id").fetchall()
    assert all(0.9 < total <= 1.0001 for (total,) in sums)


def test_a_duckdb_file_keeps_its_other_tables(folder: Path):
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute("CREATE TABLE orders AS SELECT 1 AS id")
    for what in ("lists", "groups", "lists"):
        assert export(folder, what, "--to", "shop.duckdb").exit_code == 0
    with duckdb.connect("shop.duckdb") as connection:
        names = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
        rows = connection.execute("SELECT count(*) FROM mom_lists").fetchall()
    assert names == {"orders", "mom_lists", "mom_groups"}
    assert rows == [(len(stored(folder)),)]


def test_what_cannot_be_written_is_refused_in_a_sentence(folder: Path):
    assert "lies in the data folder" in refused(folder, "lists", "--to", str(folder / "x.csv"))
    assert "must end with .csv, .parquet, .jsonl or .duckdb" in refused(
        folder, "lists", "--to", "x"
    )
    length = load_settings(folder).serving.list_length
    said = refused(folder, "lists", "--n", str(length + 1))
    assert f"serving.list_length = {length + 1}" in said
    said = refused(folder, "lists", "--to", "postgresql://me:secret@127.0.0.1:1/shop")
    assert "127.0.0.1:1/shop was left as it was" in said
    assert "secret" not in said


def test_lists_of_another_model_are_refused(shop: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = export_path(load_settings(shop))
    duckdb.sql(f"SELECT * REPLACE ('other' AS model) FROM '{path}'").write_parquet(f"{path}.new")
    Path(f"{path}.new").replace(path)
    assert "holds the lists of other" in refused(shop, "lists")
    path.unlink()
    assert "`mom-pipeline update` writes it" in refused(shop, "lists")


def test_no_formula_and_no_id_changed(shop: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = export_path(load_settings(shop))

    def with_ids(user: str, name: str) -> None:
        changed = f"SELECT * REPLACE ('{user}' AS user_id, '{name}' AS item_name) FROM '{path}'"
        duckdb.sql(changed).write_parquet(f"{path}.new")
        Path(f"{path}.new").replace(path)

    with_ids(FORMULA, "a name")
    assert f"1 ids such as {FORMULA!r}" in refused(shop, "lists")
    assert export(shop, "lists", "--to", "lists.jsonl").exit_code == 0
    assert json.loads(Path("lists.jsonl").read_text().splitlines()[0])["user_id"] == FORMULA
    with_ids("-0042", NAME)
    assert export(shop, "lists").exit_code == 0
    with Path("lists.csv").open(newline="") as lines:
        first = next(csv.DictReader(lines))
    assert (first["user_id"], first["name"]) == ("-0042", f"'{NAME}")


@pytest.fixture
def postgres() -> Iterator[str]:
    """A server of its own on a socket of its own; PostgreSQL does not run as root."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not programs:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    place = Path(tempfile.mkdtemp(prefix="mom-pg-"))
    as_owner: list[str] = []
    if os.getuid() == 0:
        shutil.chown(place, "postgres")
        as_owner = ["runuser", "-u", "postgres", "--"]
    tools = programs[-1].parent
    run = lambda *words: subprocess.run(  # noqa: E731
        [*as_owner, *map(str, words)], check=True, cwd=place, stdout=subprocess.DEVNULL
    )
    run(tools / "initdb", "-D", place / "data", "-U", "me", "--auth=trust", "--no-sync")
    options = f"-k {place} -c listen_addresses= -c fsync=off"
    run(tools / "pg_ctl", "-D", place / "data", "-o", options, "-l", place / "log", "-w", "start")
    try:
        yield f"postgresql://me@/postgres?host={place}"
    finally:
        run(tools / "pg_ctl", "-D", place / "data", "-m", "immediate", "stop")
        shutil.rmtree(place)


def test_a_table_in_postgresql_is_replaced_as_a_whole(folder: Path, postgres: str):
    psycopg = pytest.importorskip("psycopg")
    for what in ("lists", "lists", "groups"):
        done = export(folder, what, "--to", postgres)
        assert done.exit_code == 0, done.output
    with psycopg.connect(postgres) as database:
        sql = 'SELECT user_id, rank, item_id FROM mom_lists ORDER BY user_id COLLATE "C", rank'
        assert database.execute(sql).fetchall() == stored(folder)
        assert database.execute("SELECT count(*) FROM mom_groups WHERE rank = 1").fetchone()[0] > 0
