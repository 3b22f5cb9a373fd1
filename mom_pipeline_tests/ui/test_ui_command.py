"""`mom-pipeline ui` from start to end."""

import os
import signal
import socket
import subprocess
from pathlib import Path

from mom_pipeline.ui.server import DEFAULT_PORT
from mom_pipeline_tests.ui.graphql_requests import launch_by_post, run_statuses, send
from mom_pipeline_tests.ui.processes import (
    SECONDS_TO_START,
    SECONDS_TO_STOP,
    TOY_MODULE,
    command_line,
    daemon_of,
    descendants,
    running_ui,
    ui_command,
    ui_environment,
    wait_until,
)


def run_to_its_end(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ui_command(TOY_MODULE, *arguments),
        env=ui_environment(data_dir),
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_START,
        check=False,
    )


def test_after_a_killed_server_and_beside_a_second_one(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running_ui(data_dir, "--port", "0") as server:
        daemon = daemon_of(server)
        command = command_line(daemon)
        server.process.kill()
        server.process.wait(SECONDS_TO_STOP)
        gone = lambda: command_line(daemon) != command  # noqa: E731
        wait_until(gone, SECONDS_TO_STOP, f"the end of the daemon {daemon}")
    with running_ui(data_dir, "--port", "0") as server:  # the lock is free again
        second = run_to_its_end(data_dir, "--port", "0")
        assert second.returncode == 1
        assert "may have one daemon" in second.stderr
        os.kill(daemon_of(server), signal.SIGKILL)
        assert server.process.wait(SECONDS_TO_STOP) == 1
    assert "the daemon must run beside the pages" in server.printed


def test_a_run_under_way_finishes_by_itself(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running_ui(data_dir, "--port", "0") as server:
        launch_by_post(server, "patient_number")
        wait_until((data_dir / "begun").exists, SECONDS_TO_START, "the beginning of the run")
        below, daemon = descendants(server.process.pid), daemon_of(server)
        server.process.send_signal(signal.SIGHUP)
        assert server.process.wait(SECONDS_TO_STOP) == 0
    assert "Stopped." in server.printed
    assert command_line(daemon) == ""
    assert run_statuses(server) == ["STARTED"]
    (data_dir / "may_end").touch()
    succeeded = lambda: run_statuses(server) == ["SUCCESS"]  # noqa: E731
    wait_until(succeeded, SECONDS_TO_START, "the success of the run")
    gone = lambda: not any(command_line(pid) == below[pid] for pid in below)  # noqa: E731
    wait_until(gone, SECONDS_TO_STOP, f"the end of {below}")


def test_a_taken_port_that_was_asked_for_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = run_to_its_end(tmp_path / "data", "--port", str(port))
    assert ended.returncode == 1
    assert f"port {port} on 127.0.0.1 must be free" in ended.stderr
    assert "choose another --port" in ended.stderr


def test_a_taken_default_port_and_code_that_cannot_be_loaded_are_told(tmp_path: Path) -> None:
    try:
        other = socket.create_server(("127.0.0.1", DEFAULT_PORT))
    except OSError:  # taken by somebody else: as good
        other = socket.socket()
    with other, running_ui(tmp_path / "data", "--no-daemon", module="no_such_module") as server:
        assert server.port != DEFAULT_PORT
        assert send(server, "GET", "/server_info")[0] == 200
    assert f"Port {DEFAULT_PORT} is taken" in server.printed
    assert "no_such_module cannot be loaded" in server.printed
