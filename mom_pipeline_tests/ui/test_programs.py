"""Dagster's programs below `mom-pipeline ui`: their beginning, the one daemon, every end.

What happens when one dies is in `test_graph.py`, at the end of another server.
"""

import signal
from pathlib import Path

import pytest

from mom_pipeline_tests.running import SECONDS_TO_STOP, wait_until
from mom_pipeline_tests.ui.graphql_requests import end_of_the_run, launch_by_post, run_statuses
from mom_pipeline_tests.ui.processes import (
    command_line,
    descendants,
    program_of,
    run_to_its_end,
    running_ui,
    wait_for_the_end,
)


@pytest.mark.long
def test_one_daemon_at_a_time_and_its_run_finishes_by_itself(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    beside_a_second_server_until_it_is_killed(data_dir)
    with running_ui(data_dir) as server:  # the lock is free again
        launch_by_post(server, "patient_number")
        wait_until((data_dir / "begun").exists, "the beginning of the run", 120)
        below, daemon = descendants(server.process.pid), program_of(server, "dagster-daemon")
        server.process.send_signal(signal.SIGHUP)
        assert server.process.wait(SECONDS_TO_STOP) == 0
    assert "Stopped." in server.printed
    assert command_line(daemon) == ""
    assert run_statuses(server) == ["STARTED"]
    (data_dir / "may_end").touch()
    assert end_of_the_run(server) == "SUCCESS"
    wait_for_the_end(below)


def beside_a_second_server_until_it_is_killed(data_dir: Path) -> None:
    """Start a server and try a second one; kill the first: everything below goes with it."""
    with running_ui(data_dir) as server:
        second = run_to_its_end(data_dir, "--port", "0")
        assert second.returncode == 1
        assert "may have one daemon" in second.stderr
        below = descendants(server.process.pid)
        server.process.kill()
        server.process.wait(SECONDS_TO_STOP)
        wait_for_the_end(below)
