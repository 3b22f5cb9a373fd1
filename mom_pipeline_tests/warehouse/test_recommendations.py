"""The table of lists and its export, in real DuckDB files."""

from dataclasses import fields, replace
from datetime import date

import duckdb
import numpy as np

from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.core.ranking.explain import COMPONENT, ITEM, POPULAR, ReasonedLists
from mom_pipeline.core.visits import UserLists
from mom_pipeline.warehouse.dictionaries import extend_dictionaries
from mom_pipeline.warehouse.recommendations import (
    export_lists,
    list_of,
    remove_exports,
    replace_lists,
)
from mom_pipeline_tests.data_folder import HEADER, DataFolder

DAY = date(2024, 3, 1)
LOGS = HEADER + "".join(
    f"{user},{item},2024-03-01T10:00:00\n" for user, item in [("ann", "tea"), ("bob", "jam")]
)
LISTS = ReasonedLists(
    items=np.array([[0, 1], [1, -1]]),
    scores=np.array([[0.5, 0.25], [0.125, 0.0]]),
    kinds=np.array([[ITEM, COMPONENT], [POPULAR, POPULAR]]),
    causes=np.array([[1, 2], [-1, -1]]),
)
# As they come from two shards.
PARTS = [
    UserLists(
        np.array([user]),
        ReasonedLists(*(getattr(LISTS, field.name)[[user]] for field in fields(ReasonedLists))),
        0,
    )
    for user in (1, 0)
]


def fill(folder: DataFolder, day: date = DAY) -> None:
    folder.take(LOGS)
    with folder.warehouse.connect() as connection:
        extend_dictionaries(connection, DAY)
        stored = replace_lists(connection, day, "a model", PARTS)
    assert stored.rows == 3


def test_rows_say_what_spoke_for_an_item(folder: DataFolder):
    fill(folder)
    assert folder.query("FROM recommendations ORDER BY user_id, rank") == [
        (DAY, "a model", "ann", 1, "jam", 0.5, "item tea"),
        (DAY, "a model", "ann", 2, "tea", 0.25, "component 3"),
        (DAY, "a model", "bob", 1, "tea", 0.125, "popular"),
    ]


def test_an_erased_user_gets_no_list(folder: DataFolder):
    fill(folder)
    with folder.warehouse.connect() as connection:
        connection.execute("UPDATE user_dictionary SET user_id = '' WHERE user_id = 'ann'")
        assert replace_lists(connection, DAY, "a model", PARTS).rows == 1


def test_a_table_of_an_earlier_version_is_brought_up_to_date(folder: DataFolder):
    folder.settings.data_dir.mkdir(exist_ok=True)
    with duckdb.connect(str(folder.settings.warehouse_path)) as connection:
        connection.execute(
            "CREATE TABLE recommendations (day DATE NOT NULL, user_id VARCHAR NOT NULL, "
            "rank INTEGER NOT NULL, item_id VARCHAR NOT NULL, score DOUBLE NOT NULL)"
        )
        connection.execute("INSERT INTO recommendations VALUES ('2024-02-01', 'ann', 1, 'x', 1)")
    fill(folder)
    with folder.warehouse.connect() as connection:
        assert list_of(connection, "ann", date(2024, 2, 20)) == [(1, "x", 1.0)]
        assert list_of(connection, "ann", DAY) == [(1, "jam", 0.5), (2, "tea", 0.25)]
    found = folder.query("SELECT model, reason FROM recommendations ORDER BY day, user_id, rank")
    assert found[:2] == [("", ""), ("a model", "item tea")]


def test_scores_have_five_digits(folder: DataFolder):
    scores = np.array([[123456.7, 0.0], [0.00012345678, -1.9999999]])
    parts = [UserLists(np.array([0, 1]), replace(LISTS, scores=scores), 0)]
    fill(folder)
    with folder.warehouse.connect() as connection:
        replace_lists(connection, DAY, "a model", parts)
        stored = connection.execute("SELECT score FROM recommendations ORDER BY score").fetchall()
    listed = scores[LISTS.items >= 0]
    np.testing.assert_allclose([s for (s,) in stored], np.sort(listed), rtol=5e-5)
    assert (123460.0,) in stored


def test_the_export_holds_every_list_as_of_the_day(folder: DataFolder):
    fill(folder)
    later, place = date(2024, 3, 2), folder.settings.exports_dir
    catalogue = Catalogue({"jam": Item("jam", '<b>"Jam"</b>'), "no such": Item("no such", "x")})
    alone = ReasonedLists(*(array[1:] for array in vars(LISTS).values()))
    with folder.warehouse.connect() as connection:
        replace_lists(connection, later, "newer", [UserLists(np.array([1]), alone, 0)])
        for day in (DAY, later):
            export_lists(connection, day, place, catalogue)
    rows = duckdb.sql(f"SELECT user_id, model FROM '{place}/2024-03-02.parquet'").fetchall()
    assert rows == [("ann", "a model"), ("ann", "a model"), ("bob", "newer")]
    columns = duckdb.sql(f"FROM '{place}/2024-03-01.parquet'").columns
    listed = ["rank", "item_id", "item_name", "score", "reason"]
    assert columns == ["day", "model", "user_id", *listed]
    names = duckdb.sql(
        f"SELECT DISTINCT item_id, item_name FROM '{place}/2024-03-01.parquet' ORDER BY 1"
    ).fetchall()
    assert dict(names)["jam"] == '<b>"Jam"</b>'
    assert dict(names)["tea"] == ""
    assert remove_exports(place, later) == 1
    assert [path.name for path in place.iterdir()] == ["2024-03-02.parquet"]
