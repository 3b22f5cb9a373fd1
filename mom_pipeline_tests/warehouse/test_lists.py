"""The table of lists and its export, in a real DuckDB file."""

from dataclasses import fields, replace
from datetime import date

import duckdb
import numpy as np

from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.core.ranking.explain import COMPONENT, ITEM, POPULAR
from mom_pipeline.core.ranking.lists import ReasonedLists
from mom_pipeline.warehouse.lists import (
    checksum_path,
    export_lists,
    latest_items,
    listed_items,
    lists_of,
    most_listed,
    repeat_share,
    replace_lists,
)
from mom_pipeline_tests.data_folder import HEADER, DataFolder

USERS, ITEMS = (np.array(ids, dtype=object) for ids in (["ann", "bob"], ["jam", "tea", "rye"]))
LISTS = ReasonedLists(
    items=np.array([[0, 1], [1, -1]]),
    scores=np.array([[0.5, 0.25], [0.125, 0.0]]),
    kinds=np.array([[ITEM, COMPONENT], [POPULAR, POPULAR]]),
    causes=np.array([[1, 2], [-1, -1]]),
)
# As they come from two shards.
PARTS = [
    (
        np.array([user]),
        ReasonedLists(*(getattr(LISTS, field.name)[[user]] for field in fields(ReasonedLists))),
    )
    for user in (1, 0)
]


def fill(folder: DataFolder, model: str = "a model", parts: object = PARTS) -> int:
    with folder.warehouse.connect() as connection:
        return replace_lists(connection, model, USERS, ITEMS, parts)


def test_rows_say_what_spoke_for_an_item_and_replace_those_before(folder: DataFolder):
    assert fill(folder, "another") == 3
    assert fill(folder) == 3
    assert folder.query("FROM recommendations ORDER BY user_id, rank") == [
        ("a model", "ann", 1, "jam", 0.5, "item tea"),
        ("a model", "ann", 2, "tea", 0.25, "component 3"),
        ("a model", "bob", 1, "tea", 0.125, "popular"),
    ]
    with folder.warehouse.reading() as connection:
        assert lists_of(connection, ["ann", "eve"]) == {"ann": ["jam", "tea"]}
        assert listed_items(connection) == 2
        assert most_listed(connection, 1) == [{"item": "tea", "lists": 2}]


def test_scores_have_five_digits(folder: DataFolder):
    scores = np.array([[123456.7, 0.0], [0.00012345678, -1.9999999]])
    fill(folder, parts=[(np.arange(2), replace(LISTS, scores=scores))])
    stored = folder.query("SELECT score FROM recommendations ORDER BY score")
    listed = scores[LISTS.items >= 0]
    np.testing.assert_allclose([s for (s,) in stored], np.sort(listed), rtol=5e-5)
    assert (123460.0,) in stored


def test_the_export_is_the_table_with_the_names_of_the_items(folder: DataFolder):
    fill(folder)
    path = folder.settings.exports_dir / "recommendations.parquet"
    path.parent.mkdir(parents=True)
    catalogue = Catalogue({"jam": Item("jam", '<b>"Jam"</b>'), "no such": Item("no such", "x")})
    with folder.warehouse.connect() as connection:
        export_lists(connection, path, catalogue)
    exported = duckdb.sql(f"FROM '{path}'")
    assert " ".join(exported.columns) == "model user_id rank item_id item_name score reason"
    assert [(row[3], row[4]) for row in exported.fetchall()] == [
        ("jam", '<b>"Jam"</b>'),
        ("tea", ""),
        ("tea", ""),
    ]
    without_names = duckdb.sql(f"SELECT * EXCLUDE (item_name) FROM '{path}'").fetchall()
    assert without_names == folder.query("FROM recommendations ORDER BY user_id, rank")
    assert sorted(path.parent.iterdir()) == [path, checksum_path(path)]


def test_what_was_taken_last_and_again_is_of_days_that_count(folder: DataFolder):
    for day, items in ((1, "jam tea"), (2, "jam rye"), (3, "tea jam")):
        rows = (f"ann,{item},2024-03-0{day} 10:00:0{n}\n" for n, item in enumerate(items.split()))
        folder.take(HEADER + "".join(rows), f"2024-03-0{day}.csv")
    with folder.warehouse.connect() as connection:
        assert latest_items(connection, "ann", date(2024, 3, 3), 2) == ["jam", "tea"]
        assert repeat_share(connection) == 0.5
        connection.execute("INSERT INTO excluded_days VALUES ('2024-03-03', 'cut')")
        assert latest_items(connection, "ann", date(2024, 3, 3), 2) == ["rye", "jam"]
        assert repeat_share(connection) == 0.25
