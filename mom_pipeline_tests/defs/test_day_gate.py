"""A poisoned day: excluded, said, and the days after it computed without its rows."""

import gzip
from collections.abc import Mapping

import pytest

from mom_pipeline.logs.decisions import accept_day, drop_day
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries

from .conftest import Pipeline, day
from .test_model_in_use import champion

BAD = 11
SAMPLE = SampleSettings(
    n_days=BAD + 1, n_users=400, n_items=60, n_components=3, events_per_day=900, seed=4
)
ROWS = "SELECT DISTINCT delivery_day FROM admitted_logs ORDER BY ALL"


@pytest.fixture
def usual(empty: Pipeline) -> tuple[Pipeline, Mapping[str, bytes]]:
    """Ten usual days, computed; and the files of all days."""
    files = {delivery.name: delivery.content for delivery in sample_deliveries(SAMPLE)}
    empty.deliver({name: files[name] for name in sorted(files)[: BAD - 1]})
    empty.update()
    assert empty.states() == ["fresh"] * (BAD - 1)
    return empty, files


def shifted(content: bytes) -> bytes:
    """The item column moved by one line: users, items and volume are as usual."""
    header, *lines = gzip.decompress(content).decode().splitlines()
    rows = [fields for line in lines if len(fields := line.split(",")) == 3]
    items = [item for _, item, _ in rows]
    moved = zip(rows, items[1:] + items[:1], strict=True)
    text = "\n".join([header, *(f"{user},{item},{time}" for (user, _, time), item in moved)])
    return gzip.compress(f"{text}\n".encode(), mtime=0)


def test_a_poisoned_day_stays_out_until_a_person_decides(usual):
    pipeline, files = usual
    bad, after = sorted(files)[BAD - 1], sorted(files)[BAD]
    pipeline.deliver({bad: shifted(files[bad])})
    pipeline.update()
    entry = pipeline.statuses()[day(BAD)]
    assert entry.status == "excluded"
    assert f"accept {day(BAD)}" in entry.reason
    assert champion(pipeline) == str(day(BAD - 1))
    assert "excluded" in pipeline.days.made["interaction_matrix", day(BAD)].facts

    pipeline.deliver({after: files[after]})
    pipeline.update()
    assert champion(pipeline) == str(day(BAD + 1))
    assert (day(BAD),) not in pipeline.query(ROWS)
    without = pipeline.versions("interaction_matrix")

    accept_day(pipeline.warehouse, day(BAD))
    pipeline.update()
    assert pipeline.statuses()[day(BAD)].status == "fresh"
    assert (day(BAD),) in pipeline.query(ROWS)

    drop_day(pipeline.warehouse, day(BAD))
    pipeline.update()
    last = ("interaction_matrix", day(BAD + 1))
    assert (day(BAD),) not in pipeline.query(ROWS)
    assert pipeline.versions("interaction_matrix")[last] == without[last]
    pipeline.deliver({bad: files[bad]})  # the true file
    pipeline.update()
    assert pipeline.states() == ["fresh"] * (BAD + 1)
