"""Sample logs: seeded, as untidy as promised, and small."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline_tests.data_folder import DataFolder

COMMITTED = Path(__file__).parents[2] / "data" / "logs"
SMALL = SampleSettings(n_days=28, n_users=200, n_items=60, n_components=4, events_per_day=400)


def test_the_same_seed_gives_the_same_bytes() -> None:
    first = [(d.name, d.content) for d in sample_deliveries(SMALL)]
    assert first == [(d.name, d.content) for d in sample_deliveries(SMALL)]
    other = SampleSettings(28, 200, 60, 4, 400, seed=2)
    assert first != [(d.name, d.content) for d in sample_deliveries(other)]


def test_the_committed_sample_is_what_simulate_writes() -> None:
    final = {d.name: gzip.decompress(d.content) for d in sample_deliveries(SampleSettings())}
    paths = sorted(COMMITTED.iterdir())
    assert {path.name: gzip.decompress(path.read_bytes()) for path in paths} == final
    assert all(text.endswith(b"\n") for text in final.values())
    assert sum(path.stat().st_size for path in paths) < 2_000_000


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


@pytest.mark.parametrize("change", [{"n_days": 0}, {"n_users": 0}, {"n_components": 601}])
def test_impossible_sizes_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting, match="must be at"):
        SampleSettings(**change)  # type: ignore[arg-type]
