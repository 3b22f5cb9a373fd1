"""When the leaves are made by themselves, as Dagster evaluates it at a given time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import dagster as dg
import pytest

from mom_pipeline.defs.conditions import EACH_SUNDAY, WITH_ITS_DAY

DAYS = dg.DailyPartitionsDefinition("2024-03-01", end_date="2024-03-10", timezone="UTC")
SATURDAY = datetime(2024, 3, 9, 12, tzinfo=UTC)
SUNDAY = datetime(2024, 3, 10, 7, tzinfo=UTC)


@dg.asset(partitions_def=DAYS)
def metrics() -> None: ...


@dg.asset(partitions_def=DAYS, deps=[metrics], automation_condition=WITH_ITS_DAY)
def page() -> None: ...


@dg.asset(partitions_def=DAYS, deps=[metrics], automation_condition=EACH_SUNDAY)
def comparison() -> None: ...


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def make(instance: dg.DagsterInstance, asset: str, *days: int) -> None:
    for day in days:
        event = dg.AssetMaterialization(asset, partition=f"2024-03-{day:02}")
        instance.report_runless_asset_event(event)


def evaluate(instance: dg.DagsterInstance, at: datetime, before=None):
    """In a thread of its own: a browser that is open has the loop of this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(
            dg.evaluate_automation_conditions,
            [metrics, page, comparison],
            instance,
            evaluation_time=at,
            cursor=before.cursor if before else None,
        ).result()


def asked(result: dg.EvaluateAutomationConditionsResult, asset: str) -> set[str]:
    return set(result.get_requested_partitions(dg.AssetKey(asset)) or ())


def test_the_page_of_a_recent_day_follows_its_metrics(instance: dg.DagsterInstance):
    before = evaluate(instance, SATURDAY)
    make(instance, "metrics", 5, 8)  # that of the 5th is too old: a backfill makes no pages
    first = evaluate(instance, SATURDAY, before)
    assert asked(first, "page") == {"2024-03-08"}
    make(instance, "page", 8)
    second = evaluate(instance, SATURDAY, first)
    assert asked(second, "page") == set()
    make(instance, "metrics", 8)  # late logs
    assert asked(evaluate(instance, SATURDAY, second), "page") == {"2024-03-08"}


def test_the_page_that_came_with_the_metrics_is_not_made_twice(instance: dg.DagsterInstance):
    before = evaluate(instance, SATURDAY)
    make(instance, "metrics", 8)
    make(instance, "page", 8)
    assert asked(evaluate(instance, SATURDAY, before), "page") == set()


def test_the_comparison_comes_on_sunday(instance: dg.DagsterInstance):
    make(instance, "metrics", 8)
    before = evaluate(instance, SATURDAY)
    assert asked(before, "comparison") == set()
    on_sunday = evaluate(instance, SUNDAY, before)
    assert asked(on_sunday, "comparison") == {"2024-03-08"}
    make(instance, "comparison", 8)
    assert asked(evaluate(instance, SUNDAY, on_sunday), "comparison") == set()
