"""`mom-pipeline ui` and what it says about ports and code."""

import signal
import socket
from pathlib import Path

from mom_pipeline.ui.server import DEFAULT_PORT
from mom_pipeline_tests.running import running
from mom_pipeline_tests.ui.graphql_requests import send
from mom_pipeline_tests.ui.processes import PAGES, UiServer, end_with_all_below, run_to_its_end


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
    missing, words = {"PAGES_OF": "no_such_module"}, ("ui", "--no-daemon")
    with other, running(tmp_path / "data", *words, program=PAGES, **missing) as (process, _):
        server = UiServer(process, tmp_path / "data", "no_such_module")
        assert server.port != DEFAULT_PORT
        assert send(server, "GET", "/server_info")[0] == 200
        assert f"Port {DEFAULT_PORT} is taken" in server.printed
        assert "no_such_module cannot be loaded" in server.printed
        end_with_all_below(server, signal.SIGINT)
