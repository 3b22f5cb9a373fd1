"""`mom-pipeline ui` and what it says about ports and code."""

import socket
from pathlib import Path

from mom_pipeline.ui.server import DEFAULT_PORT
from mom_pipeline_tests.ui.graphql_requests import send
from mom_pipeline_tests.ui.processes import run_to_its_end, running_ui


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
    assert server.process.returncode == 0  # ended by SIGTERM
    assert "Stopped." in server.printed
