"""`mom-pipeline erase` as typed, on a finished folder: real DuckDB file, real Dagster history."""

import csv
import gzip
import io
import json
import shutil
import zipfile
from datetime import date
from pathlib import Path

import duckdb
import pytest

from mom_pipeline.artifacts.lock import _held, writing_to
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import SETTINGS_FILE, mom, rows, statuses
from mom_pipeline_tests.faults.every_list import lists_of

# Distinctive, so that its bytes can be searched for, and hard to write: quotes and no ASCII.
USER = 'needle-Ω "4711"'
N_DAYS, LAST = 4, date(2024, 3, 4)
SETTINGS = SETTINGS_FILE.replace('"components"', '"three-moment"').replace(
    "_days = 0", "_days = 28"
)
SAMPLE = SampleSettings(
    n_days=N_DAYS, n_users=200, n_items=50, n_components=3, events_per_day=700, seed=4
)


def write_logs(folder: Path, *, with_user: bool) -> None:
    """The sample, in which the first of its users is called USER; or the same without them."""
    (folder / "logs").mkdir(parents=True)
    (folder / "pipeline.toml").write_text(SETTINGS)
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


def in_full(folder, **without):
    """A new folder whose newest day is computed in full."""
    write_logs(folder, **without)
    mom(folder, "backfill", "--from", str(LAST), "--to", str(LAST), "--full")
    return folder


def champion(folder):
    return ModelRegistry(folder / "models").champion()


def test_every_list_and_membership_is_that_of_a_full_fit_without_her(erased, finished, tmp_path):
    """Weights of the choice fitted without her, too; components up to their numbers."""
    folder, receipt = erased
    clean = in_full(tmp_path / "clean", with_user=False)
    assert champion(folder).content_hash == champion(clean).content_hash
    assert champion(folder).content_hash == receipt["after"]["content"]
    assert champion(finished).content_hash == receipt["before"]["content"]
    weights = champion(folder).model.pair_ranking.weights
    assert weights != champion(finished).model.pair_ranking.weights
    assert len(lists_of(clean, LAST)) > 100
    assert lists_of(folder, LAST) == lists_of(clean, LAST)
    lists = "SELECT user_id, rank, item_id, score FROM recommendations ORDER BY ALL"
    assert rows(folder, lists) == rows(clean, lists)
    for kind in ("user", "item"):
        assert rows(folder, f"FROM {kind}_dictionary ORDER BY 1") == rows(
            clean, f"FROM {kind}_dictionary ORDER BY 1"
        )
    assert ModelRegistry(folder / "models").names() == [receipt["after"]["version"]]


def test_figures_of_past_days_stay(erased, finished):
    metrics = "SELECT DISTINCT day, model_day, ranking FROM evaluation_metrics ORDER BY ALL"
    assert rows(erased[0], metrics) == rows(finished, metrics) != []


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
    assert "lines in 4 log files" in asked.stdout
    assert not (folder / "erasures").exists()
    for path in (finished / "logs").iterdir():
        assert (folder / "logs" / path.name).read_bytes() == path.read_bytes()
