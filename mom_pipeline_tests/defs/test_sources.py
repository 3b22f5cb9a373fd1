"""Their table is the source, and a table of theirs gets the lists."""

from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from mom_pipeline import build_defs
from mom_pipeline.datasets.source import Source
from mom_pipeline.defs.partitions import RANGE_END, RANGE_START
from mom_pipeline.exports.tables import Output
from mom_pipeline.settings import ColumnSettings

from .conftest import N_DAYS, QUIET, Pipeline, day, failures, schedule_tick, sensor_tick

ORDERS, LISTS = dg.AssetKey(["dwh", "orders"]), dg.AssetKey(["mart", "lists"])
COLUMNS = ColumnSettings(user="customer", item="sku", timestamp="bought")
ANSWERS = "SELECT user_id, rank, item_id, score, reason FROM {} ORDER BY ALL"


class Shop:
    """Somebody's project: orders by day in DuckDB, our pipeline, lists in DuckDB."""

    def __init__(self, pipeline: Pipeline, folder: Path, rows: list[tuple[Any, ...]]) -> None:
        self.pipeline, self.path, self.cursor = pipeline, folder / "dwh.duckdb", None
        self.execute("CREATE TABLE orders (customer VARCHAR, sku VARCHAR, bought TIMESTAMP)")
        with duckdb.connect(str(self.path)) as connection:
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
        self.execute("CREATE SCHEMA mart")

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.path)) as connection:
            return connection.execute(sql).fetchall()

    @property
    def defs(self) -> dg.Definitions:
        @dg.asset(
            key=ORDERS,
            partitions_def=dg.DailyPartitionsDefinition(str(day(1)), end_offset=1),
            backfill_policy=dg.BackfillPolicy.single_run(),
        )
        def orders() -> None: ...

        @dg.asset(deps=[LISTS])
        def letters() -> None: ...

        source = Source(str(self.path), "orders", COLUMNS, ("dwh", "orders"), str(day(1)))
        outputs = [Output("lists", str(self.path), "mart.lists"), Output("groups", str(self.path))]
        ours = build_defs(self.pipeline.root, source=source, outputs=outputs)
        return dg.Definitions.merge(ours, dg.Definitions(assets=[orders, letters]))

    def require_counted_once(self) -> None:
        """The log holds their rows, each as often as they do."""
        rows = "SELECT user_id, item_id, event_time::TIMESTAMP FROM raw_logs ORDER BY ALL"
        assert self.pipeline.query(rows) == self.execute("FROM orders ORDER BY ALL")

    def materialize(self, keys: list[dg.AssetKey], first: int, last: int) -> None:
        """A run that somebody starts. One of their orders tells Dagster that days are new."""
        tags = {RANGE_START: str(day(first)), RANGE_END: str(day(last))}
        self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.pipeline.instance, asset_selection=keys, tags=tags, run_config=QUIET
        )

    def look(self) -> Any:
        """A tick of the sensor."""
        tick = sensor_tick(self.defs, self.pipeline.instance, self.cursor)
        self.cursor = tick.cursor
        return tick

    def night(self) -> Any:
        """A tick of the schedule."""
        return schedule_tick(self.defs, self.pipeline.instance, "daily_update_schedule")

    def follow(self, tick: Any, *, succeeds: bool = True) -> list[str]:
        """Run what a tick asks for; return the days, or what failed."""
        job = self.defs.resolve_job_def("daily_update")
        days = []
        for request in tick.run_requests:
            done = job.execute_in_process(
                instance=self.pipeline.instance,
                tags=request.tags,
                run_config=QUIET,
                raise_on_error=False,
            )
            assert done.success is succeeds, failures(done)
            days += [request.tags[RANGE_START], request.tags[RANGE_END]]
            if not succeeds:
                return failures(done)
        return days


@pytest.fixture
def shop(empty: Pipeline, backfilled: Pipeline, tmp_path: Path) -> Shop:
    rows = backfilled.query(
        "SELECT user_id, item_id, delivery_day + INTERVAL 10 HOUR FROM raw_logs "
        f"WHERE delivery_day < '{day(N_DAYS)}'"
    )
    return Shop(empty, tmp_path, rows)


def test_their_days_are_read_when_they_change_and_their_table_gets_the_lists(shop: Shop):
    graph = shop.defs.get_repository_def().asset_graph
    assert graph.get(dg.AssetKey("raw_logs")).parent_keys == {ORDERS}
    assert graph.get(LISTS).child_keys == {dg.AssetKey("letters")}
    assert "no day is missing" in shop.look().skip_message  # nothing of theirs is materialized
    shop.materialize([ORDERS], 1, 3)
    shop.materialize([ORDERS], 4, 4)
    assert shop.follow(shop.look()) == [str(day(1)), str(day(4))]
    for _ in range(2):
        assert "no day is missing" in shop.look().skip_message
    made = shop.pipeline.days.made["raw_logs", day(2)]
    assert made.inputs["orders"] == shop.pipeline.metadata("raw_logs", 2)["version of orders"]
    # A day is made again, with other rows: it is corrected, and those after it.
    shop.execute(f"DELETE FROM orders WHERE bought::DATE = '{day(3)}' AND customer < 'c'")
    assert "no day is missing" in shop.look().skip_message
    shop.materialize([ORDERS], 3, 3)
    assert shop.follow(shop.look()) == [str(day(3)), str(day(4))]
    # Nobody says that this one is gone: the night finds it.
    shop.execute(f"DELETE FROM orders WHERE bought::DATE = '{day(4)}'")
    assert shop.follow(shop.night()) == [str(day(4)), str(day(4))]
    assert "no day is missing" in shop.night().skip_message
    lists = shop.execute(ANSWERS.format("mart.lists"))
    shop.require_counted_once()
    assert lists == shop.pipeline.query(ANSWERS.format("recommendations"))
    version = shop.pipeline.metadata("recommendations", 4)["model_version"]
    for table in ("mart.lists", "mom_groups"):
        assert shop.execute(f"SELECT DISTINCT model, day FROM {table}") == [(version, day(4))]


def test_what_dies_between_reading_and_counting_is_counted_once(shop: Shop):
    source = Source(str(shop.path), "orders", COLUMNS)
    source.read(shop.pipeline.settings, day(1), "")  # and the process is gone
    shop.execute(f"DELETE FROM orders WHERE bought::DATE = '{day(1)}' AND customer < 'c'")
    source.read(shop.pipeline.settings, day(1), "")
    shop.follow(shop.night())
    shop.require_counted_once()


def test_a_source_or_an_output_that_fails_is_said_and_tried_again(shop: Shop):
    shop.follow(shop.night())
    lists = shop.execute(ANSWERS.format("mart.lists"))
    shop.execute(f"UPDATE orders SET sku = 'jazz-001' WHERE bought::DATE = '{day(4)}'")
    tick = shop.night()
    shop.execute("ALTER TABLE orders RENAME customer TO client")
    (said,) = shop.follow(tick, succeeds=False)
    assert said.startswith("raw_logs: ")
    assert "has no column 'customer', but client, sku, bought" in said
    shop.execute("ALTER TABLE orders RENAME client TO customer")
    shop.execute("DROP SCHEMA mart CASCADE")
    (said,) = shop.follow(shop.night(), succeeds=False)
    assert said.startswith("mart__lists: ")
    assert "was left as it was" in said
    shop.execute("CREATE SCHEMA mart")
    shop.materialize([LISTS], 4, 4)
    assert shop.execute(ANSWERS.format("mart.lists")) != lists
