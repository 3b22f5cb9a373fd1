"""A run worker that is killed leaves every finished day whole, and the retry completes."""

import gzip
import os
import signal
import subprocess
import sys
import time

import numpy as np

from mom_pipeline.cli.run import dagster_instance

from .conftest import N_DAYS, Pipeline, day

_RUN = (
    "from datetime import date\n"
    "from mom_pipeline.cli.run import run_days\n"
    "from mom_pipeline.settings import load_settings\n"
    f"run_days(load_settings(), date(2024, 3, 4), date(2024, 3, {N_DAYS}))\n"
)


def start(pipeline: Pipeline) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "MOM_DATA_DIR": str(pipeline.root)}
    return subprocess.Popen(
        [sys.executable, "-c", _RUN], env=environment, stderr=subprocess.DEVNULL
    )


def test_killed_in_the_middle(copied: Pipeline, backfilled: Pipeline, log_files, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", "replaced below")
    before = copied.state.model(day(3))[1].version
    late = gzip.decompress(log_files["2024-03-04.csv.gz"]).splitlines(keepends=True)[:4]
    (copied.settings.logs_dir / "2024-03-04-late.csv").write_bytes(b"".join(late))
    old = copied.state.artifacts.version("m2_statistics", day(4))
    worker = start(copied)
    deadline = time.monotonic() + 120
    while copied.state.artifacts.version("m2_statistics", day(4)) == old:
        assert worker.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL

    # Yesterday's model, and every artifact that is there, can be read and used.
    assert copied.state.model(day(3))[1].version == before
    for asset in ("interaction_matrix", "m2_statistics", "decomposition", "user_personalization"):
        for d in copied.state.artifacts.days(asset):
            copied.state.artifacts.read(asset, d)
    assert copied.query("SELECT count(DISTINCT user_id) FROM recommendations")[0][0] > 0

    with dagster_instance(copied.settings) as instance:
        Pipeline(copied.root, instance).run(4, N_DAYS)
    final = copied.state.model(day(N_DAYS))[0]
    np.testing.assert_allclose(final.weights.sum(), 1)
    assert copied.query("SELECT count(*) FROM raw_logs WHERE source_file LIKE '%late%'") == [(3,)]
    assert not np.array_equal(final.weights, backfilled.state.model(day(N_DAYS))[0].weights)
