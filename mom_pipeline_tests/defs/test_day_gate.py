"""A poisoned day: kept out, said, and the days after it computed without its rows."""

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from mom_pipeline.logs.admission import accept_day, drop_day
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.serving.registry import ModelRegistry

from .conftest import SERVED, Pipeline, day
from .test_bad_days import ROWS, settle, status, versions

USUAL_DAYS = 10
SAMPLE = SampleSettings(
    n_days=USUAL_DAYS + 2, n_users=400, n_items=60, n_components=3, events_per_day=900, seed=4
)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {delivery.name: delivery.content for delivery in sample_deliveries(SAMPLE)}


@pytest.fixture(scope="module")
def usual(tmp_path_factory, files) -> Iterator[Pipeline]:
    """Ten usual days, computed. Only to be copied."""
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = Pipeline(tmp_path_factory.mktemp("usual"), instance)
        pipeline.deliver({name: files[name] for name in sorted(files)[:USUAL_DAYS]})
        pipeline.run(1, USUAL_DAYS, only=SERVED)
        yield pipeline


@pytest.fixture
def pipeline(tmp_path: Path, usual: Pipeline) -> Iterator[Pipeline]:
    shutil.copytree(usual.root, tmp_path / "poisoned")
    with dg.DagsterInstance.ephemeral() as instance:
        yield Pipeline(tmp_path / "poisoned", instance)


def rows_of(content: bytes) -> list[list[str]]:
    lines = gzip.decompress(content).decode().splitlines()[1:]
    return [fields for line in lines if len(fields := line.split(",")) == 3]


def written(rows: list[list[str]]) -> bytes:
    lines = ["user,item,timestamp", *(",".join(row) for row in rows)]
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def shifted(rows: list[list[str]]) -> list[list[str]]:
    """The item column moved by one line: users, items and volume are as usual."""
    items = [item for _, item, _ in rows]
    return [
        [user, item, time]
        for (user, _, time), item in zip(rows, items[1:] + items[:1], strict=True)
    ]


def champion(pipeline: Pipeline) -> str | None:
    return ModelRegistry(pipeline.settings.models_dir).champion_version()


def test_no_usual_day_is_kept_out(pipeline: Pipeline, files):
    pipeline.deliver(files)
    settle(pipeline)
    states = [status(pipeline, n)[0] for n in range(1, USUAL_DAYS + 3)]
    assert states == ["fresh"] * (USUAL_DAYS + 2)
    assert str(champion(pipeline)).startswith(str(day(USUAL_DAYS + 2)))


@pytest.mark.parametrize(
    ("poison", "said"),
    [(lambda rows: 10 * rows, "rows"), (shifted, "model of the day before")],
    ids=["ten-fold", "shifted"],
)
def test_a_poisoned_day_stays_out_until_a_person_decides(pipeline: Pipeline, files, poison, said):
    names, before = sorted(files), champion(pipeline)
    bad, after = names[USUAL_DAYS], names[USUAL_DAYS + 1]
    pipeline.deliver({bad: written(poison(rows_of(files[bad])))})
    settle(pipeline)
    state, reason = status(pipeline, USUAL_DAYS + 1)
    assert state == "kept out"
    assert said in reason
    assert f"accept {day(USUAL_DAYS + 1)}" in reason
    assert champion(pipeline) == before

    pipeline.deliver({after: files[after]})
    settle(pipeline)
    assert status(pipeline, USUAL_DAYS + 1)[0] == "kept out"
    assert str(champion(pipeline)).startswith(str(day(USUAL_DAYS + 2)))
    delivered = {str(d) for (_, _, d, *_) in pipeline.query(ROWS)}
    assert str(day(USUAL_DAYS + 1)) not in delivered
    out = versions(pipeline)

    accept_day(pipeline.warehouse, day(USUAL_DAYS + 1))
    settle(pipeline)
    assert status(pipeline, USUAL_DAYS + 1)[0] == "fresh"
    assert str(day(USUAL_DAYS + 1)) in {str(d) for (_, _, d, *_) in pipeline.query(ROWS)}
    assert versions(pipeline) != out

    drop_day(pipeline.warehouse, day(USUAL_DAYS + 1))
    settle(pipeline)
    assert status(pipeline, USUAL_DAYS + 2) == ("fresh", "")
    assert versions(pipeline) == out
