"""A run that is killed leaves every finished day whole; it is seen, and the next one goes on."""

import os
import signal
import subprocess
import sys
import time

from mom_pipeline.warehouse.materializations import begin_run, runs

from .conftest import N_DAYS, Pipeline, day

_RUN = (
    "from datetime import date\n"
    "from mom_pipeline.cli.run import run_days\n"
    "from mom_pipeline.settings import load_settings\n"
    f"run_days(load_settings(), date(2024, 3, 4), date(2024, 3, {N_DAYS}))\n"
)
LISTS = "FROM recommendations ORDER BY ALL"


def test_killed_in_the_middle(copied: Pipeline):
    before, lists = copied.days.made["decomposition", day(3)].version, copied.query(LISTS)
    copied.configure("min_item_users = 3", "min_item_users = 4")
    folder = copied.settings.artifacts_dir / "m2_statistics"
    old = set(folder.glob("*"))
    worker = subprocess.Popen(
        [sys.executable, "-c", _RUN],
        env={**os.environ, "MOM_DATA_DIR": str(copied.root)},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not [path for path in set(folder.glob("2*.npz")) - old if path.exists()]:
        assert worker.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL

    # Yesterday's model and everybody's lists are there; the days of the run are not done.
    assert copied.days.made["decomposition", day(3)].version == before
    assert copied.query(LISTS) == lists
    states = copied.statuses()
    assert states[day(N_DAYS)].status == "failed"
    assert "killed" in states[day(N_DAYS)].reason
    copied.update()
    assert copied.states() == ["fresh"] * N_DAYS
    with copied.warehouse.reading() as connection:
        ends = [run.failure for run in runs(connection)]
    assert "was killed" in str(ends[-2])
    assert ends[-1] == ""


def test_a_row_without_an_end_is_a_failed_day(copied: Pipeline):
    copied.query(f"DELETE FROM materializations WHERE asset = 'report' AND day = '{day(4)}'")
    assert copied.statuses()[day(4)].status == "missing"
    with copied.warehouse.connect() as connection:
        begin_run(connection, "a run", day(4), day(4))
    entry = copied.statuses()[day(4)]
    assert (entry.status, entry.behind, entry.noteworthy) == ("failed", True, True)
    copied.run(4, only=["report"])
    assert copied.states() == ["fresh"] * N_DAYS
