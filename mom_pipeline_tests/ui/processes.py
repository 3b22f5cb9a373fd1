"""`mom-pipeline ui` as a user starts it: a process of its own, stopped by its own id."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import mom_pipeline
from mom_pipeline.ui.programs import MODULE as PROGRAMS
from mom_pipeline_tests.ui.waiting import wait_until

ROOT = Path(mom_pipeline.__file__).parent.parent
TOY_MODULE = "mom_pipeline_tests.ui.toy_definitions"
SECONDS_TO_START = 120
SECONDS_TO_STOP = 60


@dataclass(frozen=True)
class UiServer:
    """A running `mom-pipeline ui`."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    address: str
    module: str
    graph_address: str

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def printed(self) -> str:
        return (self.data_dir / "ui.log").read_text()

    @property
    def dagster_home(self) -> Path:
        return self.data_dir / "dagster_home"


def ui_command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "mom_pipeline", "ui", "--module", module, *arguments]


def ui_environment(data_dir: Path, **settings: str) -> dict[str, str]:
    return os.environ | {"MOM_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT)} | settings


def run_to_its_end(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ui_command(TOY_MODULE, *arguments),
        env=ui_environment(data_dir),
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_START,
        check=False,
    )


@contextmanager
def running_ui(
    data_dir: Path, *arguments: str, module: str = TOY_MODULE, **settings: str
) -> Iterator[UiServer]:
    """Start the command, wait until it prints its address, stop it after the block.

    It runs in the data folder, far from the sources. `settings` go into its environment.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    output = data_dir / "ui.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            ui_command(module, *arguments),
            stdout=log,
            stderr=log,
            cwd=data_dir,
            env=ui_environment(data_dir, **settings),
        )
    try:

        def ended_or_ready() -> bool:
            return process.poll() is not None or "Open http" in output.read_text()

        wait_until(ended_or_ready, SECONDS_TO_START, f"an address in {output}")
        found = re.search(r"Open (http://127\.0\.0\.1:\d+) ", output.read_text())
        assert found, output.read_text()
        graph = re.search(r"unfolded: (\S+)", output.read_text())
        assert graph, output.read_text()
        yield UiServer(process, data_dir, found[1], module, graph[1])
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started, and wait for its end."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def end_with_all_below(server: UiServer, ending: signal.Signals) -> None:
    """Send a signal to the server: it ends in order, Dagster's programs before it."""
    below = descendants(server.process.pid)
    programs = [program_of(server, name) for name in ("dagster-webserver", "dagster-daemon")]
    server.process.send_signal(ending)
    assert server.process.wait(SECONDS_TO_STOP) == 0
    assert [command_line(pid) for pid in programs] == ["", ""]
    wait_for_the_end(below)
    assert "Stopped." in server.printed


def wait_for_the_end(below: dict[int, str]) -> None:
    """Wait until no process of `descendants` is left."""
    gone = lambda: not any(command_line(pid) == below[pid] for pid in below)  # noqa: E731
    wait_until(gone, SECONDS_TO_STOP, f"the end of {below}")


def program_of(server: UiServer, name: str) -> int:
    """The id of one of Dagster's programs below a server."""
    below = descendants(server.process.pid)
    [found] = [pid for pid, command in below.items() if f"{PROGRAMS} {name} " in command]
    return found


def inner_port(server: UiServer) -> int:
    """The port on which `dagster-webserver` itself listens."""
    found = re.search(r" -p (\d+) ", command_line(program_of(server, "dagster-webserver")))
    assert found
    return int(found[1])


def descendants(pid: int) -> dict[int, str]:
    """Command lines of the living processes below one, by id."""
    found: dict[int, str] = {}
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found[int(child)] = command_line(int(child))
            found |= descendants(int(child))
    return found


def command_line(pid: int) -> str:
    """Arguments of a process; empty when it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
