"""`mom-pipeline erase` as typed, on a finished folder: real DuckDB file, real Dagster history."""

import csv
import gzip
import io
import json
import shutil
import zipfile
from pathlib import Path

import duckdb
import numpy as np
import pytest

from mom_pipeline.artifacts.lock import _held, writing_to
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.pipeline.days import LOGS, Days
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import SETTINGS_FILE, mom, rows, statuses

# Distinctive, so that its bytes can be searched for, and hard to write: quotes and no ASCII.
USER = 'needle-Ω "4711"'
SAMPLE = SampleSettings(
    n_days=3, n_users=200, n_items=50, n_components=3, events_per_day=700, seed=4
)


def write_logs(folder: Path, *, with_user: bool) -> None:
    """The sample, in which the first of its users is called USER; or the same without them."""
    (folder / "logs").mkdir(parents=True)
    (folder / "pipeline.toml").write_text(SETTINGS_FILE)
    deliveries = list(sample_deliveries(SAMPLE))
    first = deliveries[0].content
    name = gzip.decompress(first).decode().splitlines()[1].split(",")[0]
    for delivery in deliveries:
        out = io.StringIO()
        for row in csv.reader(io.StringIO(gzip.decompress(delivery.content).decode())):
            if row[0] != name:
                csv.writer(out, lineterminator="\n").writerow(row)
            elif with_user:
                csv.writer(out, lineterminator="\n").writerow([USER, *row[1:]])
        content = gzip.compress(out.getvalue().encode(), mtime=0)
        (folder / "logs" / delivery.name).write_bytes(content)


def holding(folder: Path) -> set[str]:
    """Files with the bytes of the id as they are or decompressed: written apart from the code."""
    plain, escaped = USER.encode(), json.dumps(USER)[1:-1].encode()
    wanted = [
        plain,
        escaped,
        USER.replace('"', '""').encode(),
        b"needle-",
        USER.encode("utf-32-le"),
    ]
    found = set()
    for path in (p for p in folder.rglob("*") if p.is_file()):
        contents = [path.read_bytes()]
        if path.suffix == ".gz":
            contents.append(gzip.decompress(contents[0]))
        elif path.suffix == ".npz":
            archive = zipfile.ZipFile(path)
            contents += [archive.read(name) for name in archive.namelist()]
        elif path.suffix == ".parquet":
            contents.append(repr(duckdb.sql(f"FROM '{path}'").fetchall()).encode())
        elif path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as connection:
                for (table,) in connection.execute("SHOW TABLES").fetchall():
                    rows = connection.execute(f"FROM {table}").fetchall()
                    contents.append(repr(rows).encode())
        if any(text in content for text in wanted for content in contents):
            found.add(str(path.relative_to(folder)).split("/")[0])
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "data"
    write_logs(folder, with_user=True)
    mom(folder, "update")
    return folder


@pytest.fixture(scope="module")
def erased(finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("erased") / "data"
    shutil.copytree(finished, folder)
    return folder, mom(folder, "erase", USER, "--yes", "--json").json


def test_the_id_is_found_in_every_place_before_and_nowhere_after(finished, erased):
    folder, receipt = erased
    before = holding(finished)
    assert before >= {"logs", "warehouse.duckdb", "exports", "models"}
    assert "dagster_home" not in before  # nothing that Dagster keeps names a user
    assert holding(folder) == set()
    assert receipt["left_in"] == []
    assert receipt["removed"]["files of arrays"] > 3
    assert receipt["removed"]["models"] >= 1
    assert receipt["finished"]
    assert set(statuses(folder).values()) == {"fresh"}
    assert not list(folder.rglob("*.wal"))


def test_everything_is_as_in_a_folder_that_never_had_the_user(erased, tmp_path):
    folder, _ = erased
    write_logs(tmp_path, with_user=False)
    mom(tmp_path, "update")
    ours, theirs = (Days(load_settings(place, {})) for place in (folder, tmp_path))
    assert ours.made.keys() == theirs.made.keys()
    compared = 0
    for asset, day in theirs.made:
        if "bytes" in theirs.made[asset, day].facts:
            found, expected = (days.arrays(asset, day) for days in (ours, theirs))
            assert found.keys() == expected.keys()
            for name in expected.keys() - {LOGS}:
                assert_equal(found[name], expected[name])
                compared += 1
    assert compared > 20
    lists = "SELECT user_id, rank, item_id, score FROM recommendations ORDER BY ALL"
    assert rows(folder, lists) == rows(tmp_path, lists)
    for kind in ("user", "item"):
        ids = f"SELECT position, {kind}_id FROM {kind}_dictionary ORDER BY ALL"
        assert rows(folder, ids) == rows(tmp_path, ids)


def assert_equal(found, expected):
    if hasattr(expected, "indptr"):
        assert (found != expected).nnz == 0
    else:
        np.testing.assert_array_equal(found, expected)


def test_bad_input_gets_an_answer_and_changes_nothing(finished, tmp_path):
    folder = Path(shutil.copytree(finished, tmp_path / "data"))
    for user in ("", "=HYPERLINK(1)", "nobody\n"):
        assert mom(folder, "erase", user, "--yes", code=1).stderr
    with writing_to(load_settings(folder, {}), "another erasure"):
        held = _held.copy()
        _held.clear()  # as in another process
        assert "another erasure" in mom(folder, "erase", USER, "--yes", code=1).stderr
        _held.update(held)
    asked = mom(folder, "erase", USER, code=1, typed="n\n")
    assert "lines in 3 log files" in asked.stdout
    assert not (folder / "erasures").exists()
    for path in (finished / "logs").iterdir():
        assert (folder / "logs" / path.name).read_bytes() == path.read_bytes()
