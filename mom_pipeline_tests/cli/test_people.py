"""Three people, each with what they have: the commands they type, what they see, their lists."""

import json
import sqlite3
from datetime import date, timedelta

import numpy as np
import pytest

from mom_pipeline_tests.cli.conftest import mom, rows


@pytest.fixture
def orders():
    """Thirty days of a shop: day, customer and article; three kinds of customers."""
    rng = np.random.default_rng(0)
    users = rng.permuted(np.tile(np.arange(120), (30, 1)), axis=1)[:, :40]
    return [
        (date(2024, 3, 1) + timedelta(day), f"K{user:04}", f"A{kind}-{rng.geometric(0.15):02}")
        for day, some in enumerate(users)
        for user in some
        for kind in (user % 3, user % 3)
    ]


def asked(folder, user):
    """What a person is shown of a user: some names of articles of the user's own kind first."""
    answer = mom(folder, "recommend", user, "-n", "5", "--json").json
    (listed,) = answer["lists"] if isinstance(answer, dict) else answer
    return [item["item"] for item in listed["items"]]


def test_with_a_german_export(orders, tmp_path):
    """Semicolons, cp1252, decimal commas, days first, a return, and a line that is no line."""
    lines = ["Belegnr;Kundennummer;Artikelnr;Bezeichnung;Menge;Datum;Preis"]
    lines += [
        f"{n};{user};{item};Käse {item};1,0;{day:%d.%m.%Y};1.234,50 €"
        for n, (day, user, item) in enumerate(orders)
    ]
    day, user, item = orders[0]
    lines += [f"R1;{user};{item};Käse {item};-1,0;{day:%d.%m.%Y};1,50 €", "Summe;;;;;;"]
    (tmp_path / "export.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    folder = tmp_path / "data"
    shown = mom(folder, "start", str(tmp_path / "export.csv"), "--yes").stdout
    for seen in ("Kundennummer", "Artikelnr", "Datum", "cp1252", "First lists after", "update"):
        assert seen in shown
    assert rows(folder, "SELECT count(*) FROM raw_logs WHERE weight > 0")[0][0] >= 2_300
    assert "Käse" in mom(folder, "recommend", "K0001").stdout
    assert {item[:2] for item in asked(folder, "K0001")[:3]} == {"A1"}


def test_with_a_database(orders, tmp_path):
    """Two tables, so the table is asked for; the query of a view of the shop's own."""
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE customers (id TEXT, name TEXT)")
        shop.execute("CREATE TABLE purchases (bought_at TEXT, client_id TEXT, sku TEXT)")
        shop.executemany(
            "INSERT INTO purchases VALUES (?, ?, ?)",
            [(f"{day} 10:00:00", *row) for day, *row in orders if day.day <= 8],
        )
    shop.close()
    folder, source = tmp_path / "data", str(tmp_path / "shop.db")
    refused = mom(folder, "start", source, "--yes", code=1, error=None)
    assert "customers" in refused.stderr
    assert "purchases" in refused.stderr
    assert "First lists" in mom(folder, "start", source, "--table", "purchases", "--yes").stdout
    assert "nothing to compute" not in mom(folder, "update").stdout.lower()
    assert {item[:2] for item in asked(folder, "K0002")[:3]} == {"A2"}
    assert mom(folder, "status", "--json").json["days"][-1]["status"] == "fresh"


def test_with_pairs_without_times(orders, tmp_path):
    """Lists at once, and how good a model is on a random fifth that was hidden from it."""
    lines = "".join(f"{user},{item}\n" for user, item in sorted({row[1:] for row in orders}))
    (tmp_path / "pairs.csv").write_text("user,item\n" + lines)
    folder = tmp_path / "data"
    shown = mom(folder, "start", str(tmp_path / "pairs.csv"), "--yes").stdout
    assert "all rows are of one day" in shown
    assert "hidden from it" in shown
    recalls = dict(
        rows(folder, "SELECT ranking, recall_at_k FROM evaluation_metrics WHERE cutoff = 20")
    )
    assert recalls["three-moment"] > 1.5 * recalls["popularity"] > 0
    assert {item[:2] for item in asked(folder, "K0003")[:3]} == {"A0"}
    assert json.loads(mom(folder, "models", "--json").stdout)["versions"]
