"""Sample logs: seeded, as untidy as promised, and small."""

import gzip
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.cli.sources import write_sample
from mom_pipeline.errors import InvalidSetting
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries, sample_records
from mom_pipeline_tests.data_folder import DataFolder

SMALL = SampleSettings(n_days=28, n_users=200, n_items=60, n_components=4, events_per_day=400)


def test_the_same_seed_gives_the_same_bytes() -> None:
    first = [(d.name, d.content) for d in sample_deliveries(SMALL)]
    assert first == [(d.name, d.content) for d in sample_deliveries(SMALL)]
    other = SampleSettings(28, 200, 60, 4, 400, seed=2)
    assert first != [(d.name, d.content) for d in sample_deliveries(other)]


def test_every_record_has_a_name_of_its_own_and_a_genre() -> None:
    many = replace(SMALL, n_items=700)
    records = {record.item: record for record in sample_records(many)}
    assert len({record.name for record in records.values()}) == len(records) == 700
    assert {record.group for record in records.values()} == {"Jazz", "Rock", "Folk", "Metal"}
    (first, *_) = sample_deliveries(many)
    rows = [line.split(",") for line in gzip.decompress(first.content).decode().splitlines()[1:]]
    named = sum(len(row) == 3 and row[1] in records for row in rows)
    assert named > 0.95 * len(rows)


def test_the_last_day_is_today_unless_a_first_day_is_given(folder: DataFolder) -> None:
    settings, today = folder.settings, datetime.now(UTC).date()
    write_sample(settings, n_days=2, n_users=20, n_items=10, events_per_day=30)
    (*_, last) = discover(settings.logs_dir).files
    assert today <= last.day <= datetime.now(UTC).date()
    assert len(Catalogue.open(settings.data_dir).items) == 10
    write_sample(settings, date(2024, 3, 1), n_days=2, n_users=20, n_items=10, events_per_day=30)
    assert discover(settings.logs_dir).files[0].day == date(2024, 3, 1)


def test_the_sample_has_everything_that_real_logs_have(folder: DataFolder) -> None:
    results = folder.take_all((d.name, d.content) for d in sample_deliveries(SMALL))
    statuses = Counter(result.status for result in results)
    assert statuses["new"] == 28
    assert statuses["unchanged"] > 0  # repeated delivery
    assert statuses["replaced"] > 0  # correction
    late = "SELECT count(*) FROM raw_logs WHERE event_time::DATE < delivery_day"
    assert folder.query(late)[0][0] > 0
    reasons = {reason for _, reason in folder.reasons()}
    assert {"control character", "unbalanced quote", "timestamp not understood"} <= reasons
    assert "event after the delivery day" not in reasons
    for kind in ("user", "item"):
        first_days = folder.query(
            f"SELECT count(DISTINCT first_day) FROM (SELECT min(delivery_day) AS first_day "
            f"FROM raw_logs GROUP BY {kind}_id)"
        )
        assert first_days[0][0] > 3  # new users and items


def test_more_components_than_items_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="must be at most n_items"):
        SampleSettings(n_components=601)
