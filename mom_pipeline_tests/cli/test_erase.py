"""`mom-pipeline erase` as typed, on a finished folder: real DuckDB file, real Dagster history."""

import csv
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner
from dagster import DagsterRunStatus, RunsFilter
from scipy import sparse

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.writer import _held, writing_to
from mom_pipeline.cli.main import cli
from mom_pipeline.cli.run import dagster_instance
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.users import in_first_half
from mom_pipeline.defs.freshness import freshness
from mom_pipeline.defs.runs import PROCESS_TAG
from mom_pipeline.erasure.erasing import UnknownUser
from mom_pipeline.errors import DataFolderBusy
from mom_pipeline.logs.ingest import ingest_files
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.dictionaries import ids_by_position
from mom_pipeline.warehouse.matrix import matrix_as_of
from mom_pipeline_tests.cli.test_pipeline_commands import mom
from mom_pipeline_tests.dagster_history import history_in
from mom_pipeline_tests.defs.conftest import SETTINGS_FILE, Pipeline

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
        elif path.suffix == ".npz" and not is_unfinished(path):
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


def is_unfinished(path: Path) -> bool:
    """Whether a file lies in a temporary folder: the plug may have been pulled half-way."""
    return any(parent.suffix == ".tmp" for parent in path.parents)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "data"
    write_logs(folder, with_user=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", "replaced below")
        with dagster_instance(load_settings(folder, {})) as instance:
            Pipeline(folder, instance).run(1, 3)
    return folder


@pytest.fixture(scope="module")
def erased(finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("erased") / "data"
    shutil.copytree(finished, folder)
    return folder, json.loads(mom(folder, "erase", USER, "--yes", "--json").stdout)


def test_the_id_is_found_in_every_place_before_and_nowhere_after(finished, erased):
    folder, receipt = erased
    before = holding(finished)
    assert before >= {"logs", "warehouse.duckdb", "exports", "models"}
    assert "dagster_home" not in before  # nothing that Dagster keeps names a user
    assert holding(folder) == set()
    assert receipt["left_in"] == []
    assert receipt["removed"]["days of matrices and moments"] == 3
    assert receipt["removed"]["models"] >= 1
    assert receipt["finished"]


def test_the_moments_are_those_of_logs_without_the_user(erased, tmp_path):
    folder, _ = erased
    write_logs(tmp_path / "clean", with_user=False)
    clean = Warehouse(load_settings(tmp_path / "clean", {}))
    assert len(list(ingest_files(clean, discover(clean.settings.logs_dir).files))) == 3
    state = DayState(load_settings(folder, {}))
    for day in state.artifacts.days("m2_statistics"):
        anchor, stored, _ = state.moments(day)
        X = matrix_as_of(clean, day).interactions
        X = moved(X, clean, Warehouse(state.settings), state.matrix(day)[0].shape)
        assert (state.matrix(day)[0] != X).nnz == 0
        assert_never_there(stored, X, anchor)


def assert_never_there(stored: AnchoredSums, X, anchor: Anchor) -> None:
    """The sums, those of the half included, are those of rows that never had the user."""
    in_half = in_first_half(np.arange(X.shape[0]))
    never = AnchoredSums.from_rows(X, anchor, in_half=in_half).as_arrays()
    assert {"triples", "item_pairs", "half_triples", "frequent_pairs"} <= never.keys()
    for name, array in stored.as_arrays().items():
        most = np.abs(never[name]).max(initial=0.0)
        assert np.abs(array - never[name]).max(initial=0.0) <= 1e-9 * most, name


def moved(X, source: Warehouse, target: Warehouse, shape) -> sparse.csr_array:
    """X with the positions that the ids have in another folder."""
    places = []
    for kind in ("user", "item"):
        with source.reading() as connection:
            ids = ids_by_position(connection, kind)
        with target.reading() as connection:
            there = {name: p for p, name in enumerate(ids_by_position(connection, kind))}
        places.append(np.array([there[name] for name in ids]))
    entries = X.tocoo()
    users, items = places[0][entries.coords[0]], places[1][entries.coords[1]]
    found = sparse.csr_array((entries.data, (users, items)), shape=shape)
    found.sort_indices()
    return found


def test_everything_is_fresh_and_the_others_have_their_lists(erased, finished):
    folder, _ = erased
    settings = load_settings(folder, {})
    days = freshness(Warehouse(settings), DayState(settings))
    assert [day.status for day in days] == ["fresh"] * 3
    users = "SELECT count(DISTINCT user_id) FROM recommendations WHERE day = '2024-03-03'"
    counts = []
    for place in (finished, folder):
        with duckdb.connect(str(place / "warehouse.duckdb"), read_only=True) as connection:
            counts += connection.execute(users).fetchall()
    assert counts[1][0] == counts[0][0] - 1
    export = folder / "exports" / "recommendations" / "2024-03-03.parquet"
    assert duckdb.sql(f"SELECT count(DISTINCT user_id) FROM '{export}'").fetchall() == counts[1:]
    assert not list(folder.rglob("*.wal"))


def test_refused_while_a_run_is_under_way_and_goes_on_after_a_kill(finished, tmp_path, monkeypatch):
    """A run that is alive stops it and a dead one does not; killed, it ends when run again."""
    folder = tmp_path / "data"
    shutil.copytree(finished, folder)
    monkeypatch.setenv("MOM_DATA_DIR", str(folder))
    monkeypatch.setenv("DAGSTER_HOME", "replaced by the command")
    run = refused_beside_a_run(folder)
    killed_in_the_middle(folder)
    [path] = (folder / "erasures").glob("*.json")
    assert json.loads(path.read_text())["finished"] == ""
    assert "artifacts" in holding(torn(folder))

    mom(folder, "erase", USER, "--yes")
    assert json.loads(path.read_text())["finished"]
    assert holding(folder) == set()
    assert not [file for file in folder.rglob("*") if is_unfinished(file)]
    state = DayState(load_settings(folder, {}))
    days = state.artifacts.days("interaction_matrix")
    assert len(days) == 3
    for day in days:
        anchor, stored, _ = state.moments(day)
        assert_never_there(stored, state.matrix(day)[0], anchor)
        state.model(day)
    with history_in(folder / "dagster_home") as instance:
        assert instance.get_run_by_id(run).status == DagsterRunStatus.FAILURE


def refused_beside_a_run(folder: Path) -> str:
    """Start an update, ask for the erasure beside it, and kill the update; the id of its run."""
    with (folder / "logs" / "2024-03-03-late.csv").open("w") as late:
        late.write("user,item,timestamp\nx,jazz-001,2024-03-03T10:00:00\n")
    process = started(folder, "update")
    try:
        run = stopped_in_its_run(process, folder)
        before = {path: path.read_bytes() for path in (folder / "logs").iterdir()}
        refused = CliRunner().invoke(cli, ["erase", USER, "--yes"]).exception
        assert isinstance(refused, DataFolderBusy)
        assert f"mom-pipeline update (process {process.pid}) since 20" in str(refused)
        assert "Nothing was changed" in str(refused)
        assert not (folder / "erasures").exists()
        assert before == {path: path.read_bytes() for path in (folder / "logs").iterdir()}
    finally:
        process.kill()
        process.wait()
    return run


def killed_in_the_middle(folder: Path) -> None:
    """Start an erasure, and kill it as soon as the second day is without the user."""
    state = DayState(load_settings(folder, {}))
    second = state.artifacts.days("interaction_matrix")[1]
    old = state.artifacts.version("interaction_matrix", second)
    process = started(folder, "erase", USER, "--yes")
    deadline = time.monotonic() + 60
    while state.artifacts.version("interaction_matrix", second) == old:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()


def torn(folder: Path) -> Path:
    """Leave half an array there with the id in it, as a write that a kill cuts short does."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    unfinished = folder / "artifacts" / "interaction_matrix" / f".new.0123abcd.{dead.pid}.tmp"
    unfinished.mkdir()
    (unfinished / "users.npz").write_bytes(b"PK\x03\x04" + USER.encode())
    return folder


def started(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A command as typed, under way."""
    return subprocess.Popen(
        [sys.executable, "-m", "mom_pipeline", *arguments],
        env={**os.environ, "MOM_DATA_DIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def stopped_in_its_run(process: subprocess.Popen[bytes], folder: Path) -> str:
    """Stop a process as soon as its run has noted it; the id of the run."""
    deadline = time.monotonic() + 60
    with history_in(folder / "dagster_home") as instance:
        while time.monotonic() < deadline and process.poll() is None:
            started = RunsFilter(statuses=[DagsterRunStatus.STARTED])
            runs = [run for run in instance.get_runs(started) if PROCESS_TAG in run.tags]
            if runs:
                process.send_signal(signal.SIGSTOP)
                return runs[0].run_id
            time.sleep(0.05)
    raise AssertionError("no run began, or it ended too early")


def test_bad_input_gets_an_answer_and_changes_nothing(finished, tmp_path, monkeypatch):
    folder = tmp_path / "data"
    shutil.copytree(finished, folder)
    monkeypatch.setenv("MOM_DATA_DIR", str(folder))
    monkeypatch.setenv("DAGSTER_HOME", "replaced by the command")
    for user in ("", "=HYPERLINK(1)", "nobody\n"):
        result = CliRunner().invoke(cli, ["erase", user, "--yes"])
        assert isinstance(result.exception, UnknownUser), user
    with writing_to(load_settings(folder, {}), "another erasure"):
        _held.clear()  # as in another process
        result = CliRunner().invoke(cli, ["erase", USER, "--yes"])
        assert isinstance(result.exception, DataFolderBusy)
    asked = CliRunner().invoke(cli, ["erase", USER], input="n\n")
    assert "lines in 3 log files" in asked.output
    assert asked.exit_code == 1
    assert not (folder / "erasures").exists()
    for path in (finished / "logs").iterdir():
        assert (folder / "logs" / path.name).read_bytes() == path.read_bytes()
