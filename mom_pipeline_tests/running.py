"""A command as a user starts it: a process of its own, stopped by its own id."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import mom_pipeline

ROOT = Path(mom_pipeline.__file__).parent.parent
SECONDS_TO_START, SECONDS_TO_STOP = 120, 60


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Poll a condition; fail with its name when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def command(*words: str, program: str = "mom_pipeline") -> list[str]:
    return [sys.executable, "-u", "-m", program, *words]


def environment(data_dir: Path, **settings: str) -> dict[str, str]:
    return os.environ | {"MOM_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT)} | settings


@contextmanager
def running(
    data_dir: Path, *words: str, program: str = "mom_pipeline", **settings: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a command, wait until it prints its address, stop it after the block.

    It runs in the data folder, far from the sources. `settings` go into its environment. Yields
    what it prints as a file, too.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    output = data_dir / f"{words[0]}.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            command(*words, program=program),
            stdout=log,
            stderr=log,
            cwd=data_dir,
            env=environment(data_dir, **settings),
        )
    try:

        def ended_or_ready() -> bool:
            return process.poll() is not None or "Open http" in output.read_text()

        wait_until(ended_or_ready, f"an address in {output}", SECONDS_TO_START)
        assert "Open http" in output.read_text(), output.read_text()
        yield process, output
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


def flip(path: Path) -> None:
    """Turn one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
