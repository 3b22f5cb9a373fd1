"""`mom-pipeline ui` from start to end."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from mom_pipeline.ui.daemon import DAEMON_MODULE
from mom_pipeline.ui.server import DEFAULT_PORT
from mom_pipeline_tests.ui.graphql_requests import launch_by_post, run_statuses, send
from mom_pipeline_tests.ui.processes import (
    SECONDS_TO_START,
    SECONDS_TO_STOP,
    TOY_MODULE,
    command_line,
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


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_behind(tmp_path: Path, ending: signal.Signals) -> None:
    with running_ui(tmp_path / "data", "--port", "0") as server:
        below = descendants(server.process.pid)
        daemons = [pid for pid, command in below.items() if f"{DAEMON_MODULE} run" in command]
        assert len(daemons) == 1
        server.process.send_signal(ending)
        assert server.process.wait(SECONDS_TO_STOP) == 0
        assert command_line(daemons[0]) == ""
        gone = lambda: not any(command_line(pid) == below[pid] for pid in below)  # noqa: E731
        wait_until(gone, SECONDS_TO_STOP, f"the end of {below}")
    assert "Stopped." in (tmp_path / "data/ui.log").read_text()


def test_a_killed_server_leaves_no_daemon(tmp_path: Path) -> None:
    with running_ui(tmp_path / "data", "--port", "0") as server:
        below = descendants(server.process.pid)
        [daemon] = [pid for pid, command in below.items() if f"{DAEMON_MODULE} run" in command]
        server.process.kill()
        server.process.wait(SECONDS_TO_STOP)
        gone = lambda: command_line(daemon) != below[daemon]  # noqa: E731
        wait_until(gone, SECONDS_TO_STOP, f"the end of the daemon {daemon}")
    with running_ui(tmp_path / "data", "--port", "0"):
        pass  # the lock is free again


def test_a_run_under_way_finishes_by_itself(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running_ui(data_dir, "--port", "0") as server:
        launch_by_post(server, "patient_number")
        wait_until((data_dir / "begun").exists, SECONDS_TO_START, "the beginning of the run")
    assert run_statuses(server) == ["STARTED"]
    (data_dir / "may_end").touch()
    succeeded = lambda: run_statuses(server) == ["SUCCESS"]  # noqa: E731
    wait_until(succeeded, SECONDS_TO_START, "the success of the run")


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    with running_ui(tmp_path / "data", "--no-daemon", "--port", "0") as server:
        hexadecimal_port = f":{server.port:04X}"
        listening = [
            line.split()[1]
            for table in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
            if line.split()[1].endswith(hexadecimal_port) and line.split()[3] == "0A"
        ]
        assert listening == [f"0100007F{hexadecimal_port}"]
        below = descendants(server.process.pid).values()
        assert not any(DAEMON_MODULE in command for command in below)


def test_a_taken_port_that_was_asked_for_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = run_to_its_end(tmp_path / "data", "--port", str(port))
    assert ended.returncode == 1
    assert f"port {port} on 127.0.0.1 must be free" in ended.stderr
    assert "choose another --port" in ended.stderr


def test_a_taken_default_port_gives_way_to_a_free_one(tmp_path: Path) -> None:
    try:
        other = socket.create_server(("127.0.0.1", DEFAULT_PORT))
    except OSError:  # taken by somebody else: as good
        other = socket.socket()
    with other, running_ui(tmp_path / "data", "--no-daemon") as server:
        assert server.port != DEFAULT_PORT
        assert send(server, "GET", "/server_info")[0] == 200
    assert f"Port {DEFAULT_PORT} is taken" in (tmp_path / "data/ui.log").read_text()


def test_a_second_daemon_on_the_same_data_is_an_error(tmp_path: Path) -> None:
    with running_ui(tmp_path / "data", "--port", "0"):
        ended = run_to_its_end(tmp_path / "data", "--port", "0")
    assert ended.returncode == 1
    assert "may have one daemon" in ended.stderr


def test_a_dead_daemon_ends_the_server_with_a_reason(tmp_path: Path) -> None:
    with running_ui(tmp_path / "data", "--port", "0") as server:
        below = descendants(server.process.pid)
        [daemon] = [pid for pid, command in below.items() if f"{DAEMON_MODULE} run" in command]
        os.kill(daemon, signal.SIGKILL)
        assert server.process.wait(SECONDS_TO_STOP) == 1
    assert "the daemon must run beside the pages" in (tmp_path / "data/ui.log").read_text()


def test_code_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    with running_ui(tmp_path / "data", "--no-daemon", "--port", "0", module="no_such_module"):
        text = (tmp_path / "data/ui.log").read_text()
    assert "no_such_module cannot be loaded" in text
