"""`start`, as an analyst types it: from a file to lists by name, then the older days."""

import contextlib
import csv
import random
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.cli.sources import own_folder
from mom_pipeline.core.ranking.lists import reasoned_lists
from mom_pipeline.defs.resources import OpenFolder
from mom_pipeline.pipeline.days import Days
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import mom, statuses

DAYS = [f"{day:02d}.03.2024" for day in range(1, 10)]


def events(days):
    """Day, customer and item of a shop whose customers like one of three kinds of things."""
    rng = random.Random(0)
    for day, n in days.items():
        for _ in range(n):
            customer = rng.randrange(150)
            yield day, customer, 15 * (customer % 3) + rng.randrange(15)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Nine days, as a German program writes them."""
    folder = tmp_path_factory.mktemp("shop")
    with (folder / "shop.csv").open("w", newline="", encoding="latin-1") as out:
        writer = csv.writer(out, delimiter=";")
        writer.writerow(["Kunde", "Artikel", "Bezeichnung", "Datum", "Menge"])
        for day, customer, item in events(dict.fromkeys(DAYS, 300)):
            writer.writerow([f"k{customer}", f"a{item}", f"Größe {item}", day, 1])
    return folder


@pytest.fixture(scope="module")
def started(shop):
    return shop / "data", mom(shop / "data", "start", str(shop / "shop.csv"), "--yes")


def test_the_guess_people_by_name_and_the_next_steps_are_shown(started):
    _, done = started
    for words in ("Kunde", "Artikel", "Datum, as %d.%m.%Y", "cp1252", "2024-03-01 00:00:00"):
        assert words in done.stdout
    assert done.stdout.count("recommended") == 3
    assert "Größe" in done.stdout.partition("recommended")[2]
    assert "mom-pipeline recommend USER" in done.stdout
    assert "mom-pipeline update  # the 8 older days" in done.stdout
    assert "100 % report" in done.stderr  # plain lines, since nobody looks at a terminal


def test_update_computes_the_older_days_and_a_start_typed_again_shows_the_lists(shop, started):
    root, _ = started
    assert statuses(root) == {
        **{f"0{day}": "missing" for day in range(1, 9)},
        "09": "fresh",
    }
    assert "unproven" in mom(root, "models").stdout
    done = mom(root, "update").stdout
    assert "Materialized 2024-03-01 to 2024-03-09" in done
    assert set(statuses(root).values()) == {"fresh"}
    in_use = done.rpartition("In use: ")[2]
    assert "2024-03-09" in in_use
    assert "MAP" in in_use
    assert "Nothing to compute" in mom(root, "update").stdout
    again = mom(root, "start", str(shop / "shop.csv"), "--yes").stdout
    assert again.count("recommended") == 3
    assert set(statuses(root).values()) == {"fresh"}


def test_a_folder_of_its_own_that_a_killed_start_goes_on_with(shop):
    """Never a part of another data folder; one that was interrupted early is used again."""
    home = shop / "home"
    (home / "data" / "logs").mkdir(parents=True)  # of another data folder
    (home / "data" / "shop").mkdir()
    (home / "data" / "shop" / ".writer").touch()
    with contextlib.chdir(home):
        assert own_folder("logs.csv") == Path("data/own-logs")
        assert own_folder("shop.csv") == Path("data/shop")
        assert own_folder("../a b.csv.gz") == Path("data/a-b")


def test_names_are_in_the_export_and_the_report(started):
    root, _ = started
    export = root / "exports" / "recommendations.parquet"
    rows = duckdb.sql(f"SELECT item_id, item_name FROM '{export}'").fetchall()
    assert rows
    assert all(name == f"Größe {item[1:]}" for item, name in rows)
    page = next((root / "reports").glob("*2024-03-09*.html")).read_text(encoding="utf-8")
    assert "Größe 1<" in page


def test_what_is_excluded_makes_lists_stale_and_is_no_candidate(started, monkeypatch):
    root, _ = started
    before = Days(load_settings(root))
    model = before.model(date(2024, 3, 9))
    monkeypatch.setenv("MOM_SERVING__EXCLUDE_ITEMS", "a1,a2")
    settings = load_settings(root)
    assert Days(settings).settings_of["recommendations"] != before.settings_of["recommendations"]
    with contextlib.ExitStack() as stack:
        listing = OpenFolder(settings, stack).listing(model)
    gone = np.flatnonzero(model.candidates & ~listing.candidates)
    assert len(gone) == 2
    nobody = sparse.csr_array((1, model.n_items))
    lists = reasoned_lists(listing, listing.histories(nobody), 20)
    assert not set(gone) & set(lists.items[0])
    assert set(gone) <= set(reasoned_lists(model, model.histories(nobody), 45).items[0])


def test_nothing_is_written_when_the_guess_is_refused(shop):
    shown = mom(shop / "no", "start", str(shop / "shop.csv"), code=1)  # nobody answers
    assert "How shop.csv is read" in shown.stdout
    assert "--yes takes the guess" in shown.stderr  # D14
    assert not (shop / "no").exists()


def test_one_answer_corrects_the_guess(shop):
    file = str(shop / "shop.csv")
    shown = mom(shop / "no", "start", file, typed="user=Artikel, item=Kunde\nn\n").stdout
    before, _, after = shown.partition("user=COLUMN")
    assert "│ Kunde " in before.partition("user ")[2].partition("item ")[0]
    assert "│ Artikel " in after.partition("user ")[2].partition("item ")[0]
    typed = "quantity=, time=Datum, colour=red\nn\n"  # in the words of the table
    shown = mom(shop / "no", "start", file, typed=typed)
    assert "none: every line counts once" in shown.stdout.partition("user=COLUMN")[2]
    assert "'colour' cannot be corrected here" in shown.stderr
    assert not (shop / "no").exists()


def test_other_options_ask_before_they_begin_again(shop):
    """D13: what is there stays until somebody says so."""
    root, file = shop / "again", str(shop / "shop.csv")
    assert "2,700 taken, 0 set aside" in mom(root, "import", "csv", file).stdout
    shown = mom(root, "start", file, "--item", "Bezeichnung", typed="y\nn\n").stdout
    assert "made with other options; begin again?" in shown
    assert len(list((root / "logs").iterdir())) == 9
    # A later day, put there by hand, is in no file that it could be made from again.
    (root / "logs" / "2024-05-01.csv").write_text("user,item,timestamp\nk1,a1,2024-05-01\n")
    shown = mom(root, "start", file, "--item", "Bezeichnung", "--yes", code=1)
    assert "holds 1 log files of other imports, which would go" in shown.stderr
    assert len(list((root / "logs").iterdir())) == 10


def test_an_option_corrects_the_guess_and_is_named_in_its_error(shop):
    shown = mom(shop / "no", "start", str(shop / "shop.csv"), "--user", "Kundin", code=1)
    assert "exactly one column 'Kundin' (--user)" in shown.stderr
    shown = mom(shop / "no", "start", str(shop / "shop.csv"), "--yes", "--timezone", "X", code=1)
    assert "--timezone must be an IANA zone" in shown.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("simulate --days 0", 2, "'--days': 0 is not in the range x>=1"),
        ("simulate --items 3", 1, "n_components=8 must be at most n_items=3"),
        ("import csv FILE --delimiter X", 1, "--delimiter must be one of ','"),
    ],
)
def test_errors_name_the_option(shop, words, code, message):
    arguments = words.replace("FILE", str(shop / "shop.csv")).split()
    assert message in mom(shop / "no", *arguments, code=code).stderr


def test_a_last_day_that_the_file_cuts_short_is_passed_over(tmp_path):
    days = {f"2024-03-{day:02}": 400 for day in range(1, 14)} | {"2024-03-14": 4}
    lines = [f"k{who},a{what},{day}T12:00:00\n" for day, who, what in events(days)]
    path = tmp_path / "cut.csv"
    path.write_text("customer,sku,ordered_at\n" + "".join(lines))
    done = mom(tmp_path / "data", "start", str(path), "--yes")
    assert done.stdout.count("recommended") == 3
    assert statuses(tmp_path / "data")["13"] == "fresh"


def test_update_accepts_a_small_day_within_an_import_as_start_does(tmp_path):
    days = {f"2024-03-{day:02}": 15 if day == 9 else 200 for day in range(1, 11)}
    lines = [f"k{who},a{what},{day}T12:00:00\n" for day, who, what in events(days)]
    path, root = tmp_path / "shop.csv", tmp_path / "data"
    path.write_text("customer,sku,ordered_at\n" + "".join(lines))
    mom(root, "import", "csv", str(path))
    done = mom(root, "update")
    assert "Accepted, as usual within the whole history: 2024-03-09." in done.stdout
    assert set(statuses(root).values()) == {"fresh"}
