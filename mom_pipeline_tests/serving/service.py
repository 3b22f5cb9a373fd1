"""`mom-pipeline serve` as a user starts it: a process of its own, stopped by its own id."""

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mom_pipeline

ROOT = Path(mom_pipeline.__file__).parent.parent
SECONDS_TO_START = 60


@dataclass(frozen=True)
class Service:
    """A running service."""

    process: subprocess.Popen[bytes]
    port: int
    output: Path

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, value: Any, **headers: str) -> tuple[int, Any]:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.ask("POST", path, body, {"Content-Type": "application/json"} | headers)

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
            if text and response.headers.get_content_type() == "application/json":
                return response.status, json.loads(text)
            return response.status, text.decode()
        finally:
            connection.close()

    def version(self) -> str | None:
        return self.get("/health")[1]["model"]


def encoded(name: str) -> str:
    return quote(name, safe="")


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


@contextmanager
def running_service(
    data_dir: Path, *, host: str = "127.0.0.1", **settings: str
) -> Iterator[Service]:
    """Start the command on a free port, and stop it after the block."""
    data_dir.mkdir(parents=True, exist_ok=True)
    output = data_dir / "serve.log"
    environment = os.environ | {"MOM_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT)} | settings
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "mom_pipeline", "serve", "--port", "0", "--host", host],
            stdout=log,
            stderr=log,
            cwd=data_dir,
            env=environment,
        )
    try:
        wait_until(
            lambda: process.poll() is not None or "Open http" in output.read_text(),
            f"an address in {output}",
        )
        address = re.search(rf"Open http://{re.escape(host)}:(\d+) ", output.read_text())
        assert address, output.read_text()
        yield Service(process, int(address[1]), output)
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
