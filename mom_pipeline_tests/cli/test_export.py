"""`mom-pipeline export`: the lists and groups of everybody, wherever they are to go."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from mom_pipeline import Recommender
from mom_pipeline.exports.tables import NotExported
from mom_pipeline.serving.lists import export_path
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import in_csv, mom, rows
from mom_pipeline_tests.datasets.postgres import PROGRAMS, server

FORMULA, NAME = "=1+1", "@SUM(A1)"
LISTS = "SELECT user_id, rank, item_id FROM recommendations ORDER BY user_id, rank"
# Ends the connection in the middle of the rows.
DYING = """
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.rank = 3 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW;
END $$;
CREATE TRIGGER dies BEFORE INSERT ON mom_lists FOR EACH ROW EXECUTE FUNCTION die();
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to write to."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Path()


def refused(folder: Path, *arguments: str) -> str:
    """The sentence of a refusal, which leaves nothing behind."""
    before = sorted(Path().iterdir())
    said = mom(folder, "export", *arguments, error=NotExported).stderr
    assert sorted(Path().iterdir()) == before
    return said


def test_lists_are_those_of_the_model_in_use_in_every_format(computed: Path, here: Path):
    expected = rows(computed, LISTS)
    for kind in ("csv", "parquet", "jsonl"):
        done = mom(computed, "export", "lists", "--format", kind)
        assert f"{len(expected):,} rows" in done.stdout
    lines = in_csv(here / "lists.csv")
    assert [(r["user_id"], int(r["rank"]), r["item_id"]) for r in lines] == expected
    records = [json.loads(line) for line in (here / "lists.jsonl").read_text().splitlines()]
    assert [(r["user_id"], r["rank"], r["item_id"]) for r in records] == expected
    assert duckdb.sql(LISTS.replace("recommendations", "'lists.parquet'")).fetchall() == expected
    mom(computed, "export", "lists", "--to", "two.csv", "--n", "2")
    users = {user for user, _, _ in expected}
    assert [r["rank"] for r in in_csv(here / "two.csv")] == ["1", "2"] * len(users)


def test_groups_are_the_memberships_of_everybody(computed: Path, here: Path):
    mom(computed, "export", "groups", "--to", "groups.parquet")
    served = ModelRegistry(computed / "models").champion()
    known = np.diff(served.histories.indptr) > 0
    users, shares = served.user_ids[known], served.model.memberships(served.histories[known])
    sql = "SELECT user_id, group_number, share, name FROM 'groups.parquet' WHERE rank = 1"
    found = {user: (group, share, name) for user, group, share, name in duckdb.sql(sql).fetchall()}
    assert set(found) == set(users)
    names = [each.name for each in Recommender.open(computed).groups.names]
    for user, row in zip(users, shares, strict=True):
        best = int(row.argmax())
        assert found[user] == (best + 1, pytest.approx(row[best]), names[best])
    sums = duckdb.sql("SELECT sum(share) FROM 'groups.parquet' GROUP BY user_id").fetchall()
    assert all(0.9 < total <= 1.0001 for (total,) in sums)


def test_a_duckdb_file_keeps_its_other_tables(computed: Path, here: Path):
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute("CREATE TABLE orders AS SELECT 1 AS id")
    for what in ("lists", "groups", "lists"):
        mom(computed, "export", what, "--to", "shop.duckdb")
    with duckdb.connect("shop.duckdb") as connection:
        names = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
        assert names == {"orders", "mom_lists", "mom_groups"}
        assert connection.execute(LISTS.replace("recommendations", "mom_lists")).fetchall() == rows(
            computed, LISTS
        )


def test_what_cannot_be_written_is_refused_in_a_sentence(computed: Path, here: Path):
    inside = refused(computed, "lists", "--to", str(computed / "x.csv"))
    assert "lies in the data folder" in inside
    ends = refused(computed, "lists", "--to", "x")
    assert "must end with .csv, .parquet, .jsonl or .duckdb" in ends
    length = load_settings(computed).serving.list_length
    said = refused(computed, "lists", "--n", str(length + 1))
    assert f"serving.list_length = {length + 1}" in said
    said = refused(computed, "lists", "--to", "postgresql://me:secret@127.0.0.1:1/shop")
    assert "127.0.0.1:1/shop was left as it was" in said
    assert "secret" not in said


def changed(folder: Path, values: str) -> None:
    """Write other values into the export that follows the model in use."""
    path = export_path(load_settings(folder))
    duckdb.sql(f"SELECT * REPLACE ({values}) FROM '{path}'").write_parquet(f"{path}.new")
    Path(f"{path}.new").replace(path)


def test_lists_of_another_model_are_refused_until_they_are_written_again(shop: Path, here: Path):
    changed(shop, "'other' AS model")
    assert "holds the lists of other" in refused(shop, "lists")
    export_path(load_settings(shop)).unlink()
    assert "`mom-pipeline update` writes it" in refused(shop, "lists")
    mom(shop, "promote", "--auto")
    mom(shop, "export", "lists")


def test_no_formula_and_no_id_changed(shop: Path, here: Path):
    changed(shop, f"'{FORMULA}' AS user_id")
    assert f"1 ids such as {FORMULA!r}" in refused(shop, "lists")
    mom(shop, "export", "lists", "--to", "lists.jsonl")
    first = json.loads((here / "lists.jsonl").read_text().splitlines()[0])
    assert first["user_id"] == FORMULA
    changed(shop, f"'-0042' AS user_id, '{NAME}' AS item_name")
    mom(shop, "export", "lists")
    first = in_csv(here / "lists.csv")[0]
    assert (first["user_id"], first["name"]) == ("-0042", f"'{NAME}")


@pytest.mark.skipif(not PROGRAMS, reason="needs PostgreSQL: apt-get install postgresql")
def test_a_table_in_postgresql_is_replaced_as_a_whole(computed: Path):
    """Or left as it is, where the connection breaks in the middle."""
    psycopg = pytest.importorskip("psycopg")
    sql = LISTS.replace("recommendations", "mom_lists")
    sql = sql.replace("BY user_id", 'BY user_id COLLATE "C"')
    with server(PROGRAMS[-1]) as address:
        for what in ("lists", "lists", "groups"):
            mom(computed, "export", what, "--to", address)
        with psycopg.connect(address) as database:
            assert database.execute(sql).fetchall() == rows(computed, LISTS)
            first = "SELECT count(*) FROM mom_groups WHERE rank = 1"
            assert database.execute(first).fetchone()[0] > 0
            database.execute(DYING)
        said = mom(computed, "export", "lists", "--to", address, error=NotExported).stderr
        assert "was left as it was: " in said
        assert "secret" not in said
        with psycopg.connect(address) as database:
            assert database.execute(sql).fetchall() == rows(computed, LISTS)
