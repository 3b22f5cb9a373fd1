"""Files as people have them: each is read right at once, or says what to give; bad ones say why."""

import bz2
import csv
import gzip
import random
import sqlite3
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from mom_pipeline.datasets.containers import SourcePart, plain_files
from mom_pipeline.datasets.guessing import Guess, guess_files, own_files
from mom_pipeline.datasets.importing import import_dataset
from mom_pipeline.errors import DatasetError
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.data_folder import DataFolder
from mom_pipeline_tests.datasets.corpus import ENGLISH, PLAIN, Case, cases, in_duckdb, text
from mom_pipeline_tests.datasets.postgres import PROGRAMS, server

CASES = list(cases())


def guess(source: Path | str, folder: Path, arguments: tuple[str, ...] = ()) -> Guess:
    """Guess as `start SOURCE ARGUMENTS --yes` does."""
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    part = SourcePart(**{name.removeprefix("--"): value for name, value in pairs})
    plain = folder / "plain"
    plain.mkdir(exist_ok=True)
    return guess_files(plain_files(str(source), part, plain), {})


def test_nearly_all_files_need_no_option() -> None:
    assert len(CASES) >= 60
    assert sum(not case.arguments for case in CASES) >= 0.95 * len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_file_as_people_have_it(folder: DataFolder, tmp_path: Path, case: Case) -> None:
    path = tmp_path / case.name
    case.write(path)
    if case.arguments:
        with pytest.raises(DatasetError, match=f"give .*{case.arguments[0]}"):
            guess(path, tmp_path)
    summary = import_dataset(own_files(guess(path, tmp_path, case.arguments)), folder.settings)
    assert summary.taken == case.taken
    assert {part.reason: part.n for part in summary.rest} == case.set_aside
    with gzip.open(min(folder.settings.logs_dir.iterdir()), "rt", encoding="utf-8") as log:
        first = next(row for row in csv.DictReader(log) if not row["exclude"])
    time = first["timestamp"][:19].replace("T", " ")
    found = (first["user"], first["item"], time, float(first.get("weight") or 1))
    assert found == (case.first or found)
    catalogue = folder.settings.data_dir / "items.csv"
    assert catalogue.exists() == case.names
    if case.first and case.names and "Größe" in (names := catalogue.read_text(encoding="utf-8")):
        assert f"{found[1]},Größe {int(found[1][2:])}" in names


def test_what_was_lent_and_came_back_was_wanted(folder: DataFolder, tmp_path: Path) -> None:
    path = tmp_path / "ausleihen.csv"
    rows = [f"{u},M{m},{kind},2024-02-{day:02d} 10:00:00" for u in range(9) for m in range(9)
            for day, kind in ((1 + m, "Ausleihe"), (10 + m, "Rückgabe"))]  # fmt: skip
    path.write_text("\n".join(["Leser,Mediennr,Vorgang,Datum", *rows]))
    guessed = guess(path, tmp_path)
    assert (guessed.options.item, guessed.options.event) == ("Mediennr", "Vorgang")
    done = import_dataset(own_files(guessed), folder.settings)
    assert {one.event: one.weight for one in done.types} == {"Ausleihe": 1.0, "Rückgabe": 0.0}
    assert (done.taken, done.returns) == (162, 0)


def test_event_types_are_weighed_by_what_follows_them(folder: DataFolder, tmp_path: Path) -> None:
    """A cart is bought later, a view is not; given weights hold."""
    rng, path = random.Random(0), tmp_path / "events.csv"
    with path.open("w") as out:
        out.write("user,item,type,time\n")
        for day in range(1, 29):
            for _ in range(60):
                user, item = rng.randrange(50), rng.randrange(30)
                kind = "cart" if (user * item) % 7 == 0 else "view"
                out.write(f"{user},{item},{kind},2024-02-{day:02d}\n")
                if kind == "cart" and day > 14:
                    out.write(f"{user},{item},purchase,2024-02-{day:02d}\n")
        out.write("1,2,return,2024-02-28\n")
    summary = import_dataset(own_files(guess(path, tmp_path)), folder.settings)
    weights = {one.event: one.weight for one in summary.types}
    assert weights.keys() == {"view", "cart", "purchase", "return"}
    assert weights["cart"] > weights["view"] == 1.0
    assert weights["return"] == -1.0
    given = replace(guess(path, tmp_path), event_weights={"view": 0.0, "purchase": 9.0})
    again = import_dataset(own_files(given), load_settings(folder.settings.data_dir, {}))
    assert {one.event: one.weight for one in again.types} == {**weights, "view": 0, "purchase": 9}
    assert "purchase = 9.0" in (folder.settings.data_dir / "pipeline.toml").read_text()


def test_the_types_of_a_later_file_count_as_before(folder: DataFolder, tmp_path: Path) -> None:
    """A day tells nothing about types; one that is new is named, and counts nothing."""
    path, root = tmp_path / "events.csv", folder.settings.data_dir
    for day, kinds, weights in (
        (1, ("view", "cart"), {"view": 1.0, "cart": 1.0}),
        (2, ("view", "cart", "purchase"), {"view": 1.0, "cart": 1.0, "purchase": 0.0}),
        (3, ("view",), {"view": 1.0}),
    ):
        rows = [f"u{n},i{n},{kinds[n % len(kinds)]},2024-02-0{day}" for n in range(90)]
        path.write_text("\n".join(["user,item,type,time", *rows]))
        done = import_dataset(own_files(guess(path, tmp_path)), load_settings(root, {}))
        assert {one.event: one.weight for one in done.types} == weights
    stored = dict(load_settings(root, {}).logs.event_weights)
    assert stored == {"view": 1.0, "cart": 1.0}  # as before: no day is stale


def locked(path: Path) -> None:
    """A database that another program holds, whose lock lives as long as the test."""
    sqlite3.connect(path).execute("CREATE TABLE orders (user, item)").connection.close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    HOLDERS.append(holder)


HOLDERS: list[sqlite3.Connection] = []


def huge_line(path: Path) -> None:
    """A line of 200 MB, sparse on disk."""
    with path.open("wb") as out:
        out.truncate(200_000_000)


def archive_of_nothing(path: Path) -> None:
    with zipfile.ZipFile(path, "w"):
        pass


def no_header(path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for number in range(30):
        book.active.append([number * 0.37, number * 1.9])
    book.save(path)


BAD = {
    "empty.csv": (lambda path: path.touch(), (), "is empty"),
    "blank.csv": (lambda path: path.write_text("\n\n \n"), (), "is empty"),
    "picture.png": (lambda p: p.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99)), (), "PNG picture"),
    "letter.pdf": (lambda path: path.write_bytes(b"%PDF-1.7\n"), (), "a PDF document"),
    "page.html": (lambda path: path.write_text("<!doctype html><p>"), (), "a web page"),
    "noise.bin": (lambda p: p.write_bytes(random.Random(0).randbytes(9999)), (), "unknown kind"),
    "prose.txt": (
        lambda path: path.write_text("Dear all,\nthank you\n" * 9),
        (),
        "user and an item",
    ),
    "cut.gz": (lambda p: p.write_bytes(gzip.compress(b"a,b\n" * 9999)[:-9]), (), "cannot be read"),
    "cut.parquet": (lambda path: path.write_bytes(b"PAR1" + bytes(99)), (), "as Parquet"),
    "cut.xlsx": (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(99)), (), "as a sheet"),
    "wide.csv": (
        lambda path: path.write_text(",".join(["x"] * 400_000) + "\n"),
        (),
        "400,000 columns",
    ),
    "long.csv": (huge_line, (), "unknown kind"),
    "nothing.zip": (archive_of_nothing, (), "holds no file"),
    "numbers.xlsx": (no_header, (), "looks like the user or the item"),
    "locked.sqlite": (locked, (), "database is locked"),
    "none.duckdb": (in_duckdb("a"), ("--query", "FROM a WHERE false"), "no row"),
    "wrong.duckdb": (in_duckdb("a"), ("--query", "SELEC 1"), "correct --query"),
    "tables.duckdb": (in_duckdb("a", "b"), ("--table", "c"), "no table 'c'; .* Tables: a, b"),
    "array.json": (lambda path: path.write_text("[1, 2"), (), "cannot be read"),
    "deep.json": (lambda path: path.write_text("{" * 9_999), (), "no line is a JSON object"),
    "missing.csv": (lambda path: None, (), "is not a file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(tmp_path: Path, name: str) -> None:
    write, arguments, message = BAD[name]
    write(tmp_path / name)
    with pytest.raises(DatasetError, match=message) as refused:
        guess(tmp_path / name, tmp_path, arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["many.zip", "many.gz", "many.bz2", "within.zip"])
def test_what_unpacks_to_too_much_is_one_sentence(tmp_path, monkeypatch, name) -> None:
    content = b"user,item\n" * 9999
    with zipfile.ZipFile(tmp_path / "many.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("orders.csv", content)
    with zipfile.ZipFile(tmp_path / "within.zip", "w", zipfile.ZIP_STORED) as out:
        out.write(tmp_path / "many.zip", "many.zip")
    (tmp_path / "many.gz").write_bytes(gzip.compress(content))
    (tmp_path / "many.bz2").write_bytes(bz2.compress(content))
    monkeypatch.setattr("mom_pipeline.datasets.containers._MOST_BYTES", 50_000)
    with pytest.raises(DatasetError, match=r"more than 50,000 bytes|holds an archive") as refused:
        guess(tmp_path / name, tmp_path)
    assert "\n" not in str(refused.value)


def test_what_is_made_of_a_database_is_called_as_it(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders AS SELECT 1 AS user, 2 AS item")
    (tmp_path / "plain").mkdir()
    [made] = plain_files(str(path), SourcePart(), tmp_path / "plain")
    assert made.name == path.name


def test_standard_input_and_addresses(folder: DataFolder, tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    text(ENGLISH, PLAIN, pack=gzip.compress)(path)
    (tmp_path / "plain").mkdir()
    found = plain_files(f"file://{path}", SourcePart(), tmp_path / "plain")
    assert import_dataset(own_files(guess_files(found, {})), folder.settings).taken == 600
    with pytest.raises(DatasetError, match="nowhere cannot be read"):
        guess("memory://nowhere", tmp_path)
    code = (
        "import sys; from pathlib import Path\n"
        "from mom_pipeline.datasets.containers import SourcePart, plain_files\n"
        f"print(plain_files('-', SourcePart(), Path({str(tmp_path / 'plain')!r}))[0].name)"
    )
    with path.open("rb") as stream:
        done = subprocess.run(
            [sys.executable, "-c", code], stdin=stream, capture_output=True, text=True, check=True
        )
    assert done.stdout.strip() == "rows"


def test_a_pattern_and_a_folder_name_the_same_files(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in range(3):
        duckdb.sql(f"SELECT {number} AS user, 'i' AS item").write_parquet(
            str(folder / f"{number}.parquet")
        )
    for source in (folder, f"{folder}/*.parquet"):
        assert [file.path.name for file in guess(source, tmp_path).files] == [
            "0.parquet", "1.parquet", "2.parquet"
        ]  # fmt: skip
    (folder / "3.csv").write_text("other,item\n1,2\n")
    with pytest.raises(DatasetError, match="no column 'user', which 0"):
        guess(folder, tmp_path)


@pytest.mark.skipif(not PROGRAMS, reason="PostgreSQL is not on this machine")
def test_postgres(folder: DataFolder, tmp_path_factory: pytest.TempPathFactory, tmp_path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with server(PROGRAMS[-1]) as address:
        with psycopg.connect(address, autocommit=True) as database:
            columns = ", ".join(f"{name} text" for name in ENGLISH.split(","))
            database.execute(f"CREATE TABLE orders ({columns}); CREATE TABLE b (x int)")
            with database.cursor().copy("COPY orders FROM STDIN (FORMAT csv, HEADER)") as copy:
                path = tmp_path / "orders.csv"
                text(ENGLISH, PLAIN)(path)
                copy.write(path.read_bytes())
        done = import_dataset(
            own_files(guess(address, tmp_path, ("--table", "orders"))), folder.settings
        )
        assert done.taken == 600
        query = "SELECT customer_id, product_id FROM orders LIMIT 7;"
        assert len(guess(address, tmp_path, ("--query", query)).sample.rows) == 7
        for arguments, message in (
            ((), "2 tables; give --table or --query. Tables: b, orders"),
            (("--query", "DROP TABLE orders"), "correct the address or --query"),
            (("--query", "SELECT * FROM orders WHERE false"), "no row"),
        ):
            with pytest.raises(DatasetError, match=message):
                guess(address, tmp_path, arguments)
        wrong = address.replace(":secret@", ":other@")
        with pytest.raises(DatasetError, match="password authentication failed") as refused:
            guess(wrong, tmp_path)
        assert "other" not in str(refused.value)
    with pytest.raises(DatasetError, match="correct the address"):
        guess(address, tmp_path)


REAL = Path(__file__).parents[2] / "../shared/data"


@pytest.mark.skipif(not REAL.exists(), reason=f"{REAL} is not on this machine")
@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("online_retail.csv.gz", ("CustomerID", "StockCode", "InvoiceDate")),
        ("movietweetings/ratings.dat.gz", ("1", "2", "4")),
        ("30music.parquet", ("user_id", "song_id", "ts")),
        ("gowalla/test.txt.gz", ("user", "item", "")),
    ],
)
def test_published_logs_need_no_option(
    tmp_path: Path, name: str, columns: tuple[str, str, str]
) -> None:
    options = guess(REAL / name, tmp_path).options
    assert (options.user, options.item, options.timestamp) == columns
