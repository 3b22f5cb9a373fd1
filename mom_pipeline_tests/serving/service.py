"""`mom-pipeline serve` as a user starts it: a process of its own, stopped by its own id."""

import http.client
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mom_pipeline_tests.running import running


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

    def put(self, path: str, value: Any) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"}
        return self.ask("PUT", path, json.dumps(value).encode(), headers)

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


@contextmanager
def running_service(
    data_dir: Path, *options: str, host: str = "127.0.0.1", **settings: str
) -> Iterator[Service]:
    """Start the command on a free port, and stop it after the block."""
    words = ("serve", "--port", "0", "--host", host, *options)
    with running(data_dir, *words, **settings) as (process, output):
        address = re.search(rf"Open http://{re.escape(host)}:(\d+) ", output.read_text())
        assert address, output.read_text()
        yield Service(process, int(address[1]), output)


def workers_of(service: Service) -> list[int]:
    """The processes that answer."""
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children")
    return [int(pid) for pid in children.read_text().split()]
