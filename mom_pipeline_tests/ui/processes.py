"""`mom-pipeline ui` as a user starts it, and Dagster's programs below it."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mom_pipeline.ui.programs import MODULE as PROGRAMS
from mom_pipeline_tests.running import (
    SECONDS_TO_START,
    SECONDS_TO_STOP,
    command,
    environment,
    running,
    wait_until,
)

TOY_MODULE, PAGES = "mom_pipeline_tests.ui.toy_definitions", "mom_pipeline_tests.ui"


@dataclass(frozen=True)
class UiServer:
    """A running `mom-pipeline ui`."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    module: str

    @property
    def printed(self) -> str:
        return (self.data_dir / "ui.log").read_text()

    @property
    def address(self) -> str:
        return re.findall(r"Open (http://127\.0\.0\.1:\d+) ", self.printed)[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def dagster_home(self) -> Path:
        return self.data_dir / "dagster_home"


@contextmanager
def running_ui(
    data_dir: Path, *arguments: str, module: str = TOY_MODULE, **settings: str
) -> Iterator[UiServer]:
    """Start the command on a free port, and stop it after the block."""
    words, pages = ("ui", "--port", "0", *arguments), {"PAGES_OF": module}
    with running(data_dir, *words, program=PAGES, **pages, **settings) as (process, _):
        yield UiServer(process, data_dir, module)


def run_to_its_end(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("ui", *arguments, program=PAGES),
        env=environment(data_dir, PAGES_OF=TOY_MODULE),
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_START,
        check=False,
    )


def end_with_all_below(server: UiServer, ending: signal.Signals) -> None:
    """Send a signal to the server: it ends in order, Dagster's programs before it."""
    below = descendants(server.process.pid)
    programs = [pid for pid, words in below.items() if f"{PROGRAMS} dagster-" in words]
    assert programs
    server.process.send_signal(ending)
    assert server.process.wait(SECONDS_TO_STOP) == 0
    assert {command_line(pid) for pid in programs} == {""}
    wait_for_the_end(below)
    assert "Stopped." in server.printed


def wait_for_the_end(below: dict[int, str]) -> None:
    """Wait until no process of `descendants` is left."""
    gone = lambda: not any(command_line(pid) == below[pid] for pid in below)  # noqa: E731
    wait_until(gone, f"the end of {below}", SECONDS_TO_STOP)


def program_of(server: UiServer, name: str) -> int:
    """The id of one of Dagster's programs below a server."""
    below = descendants(server.process.pid)
    [found] = [pid for pid, words in below.items() if f"{PROGRAMS} {name} " in words]
    return found


def inner_port(server: UiServer) -> int:
    """The port on which `dagster-webserver` itself listens."""
    words = command_line(program_of(server, "dagster-webserver"))
    return int(re.findall(r" -p (\d+) ", words)[0])


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
