"""Load on `mom-pipeline serve`: questions by several clients, and events at a steady rate."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import numpy as np

from mom_pipeline.bench.measure import timed

_USERS_ASKED, _WARM_UP = 1_000, 20
_EVENTS_PER_SECOND, _TELLERS = 600, 8
_SECONDS_TO_STOP = 30
# Seconds, the version that answered or what went wrong, and the items.
Answer = tuple[float, str, list[str]]


@dataclass(frozen=True)
class Load:
    """What came of many requests. cpu: seconds of the processes that answered."""

    seconds: float
    cpu: float
    answers: list[Answer]


def summary(loads: Sequence[Load]) -> dict[str, Any]:
    """Return the figures of the loads together."""
    answers = [answer for each in loads for answer in each.answers]
    ms = 1000 * np.array([seconds for seconds, _, items in answers if items])
    errors = Counter(said for _, said, items in answers if not items)
    return {
        "requests": len(answers),
        "errors": errors.total(),
        "kinds_of_errors": ", ".join(errors),
        "versions": len({said for _, said, items in answers if items}),
        "per_second": len(answers) / sum(each.seconds for each in loads),
        "p50_ms": float(np.median(ms)),
        "p99_ms": float(np.quantile(ms, 0.99)),
        "longest_ms": float(ms.max()),
        "cpu_ms": 1000 * sum(each.cpu for each in loads) / len(answers) or None,
    }


@dataclass(frozen=True)
class Service:
    """A service by its port and its process."""

    port: int
    pid: int

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def hide(self, item: str) -> None:
        """Let no list hold an item."""
        _ask(self.connection(), "PUT", f"/items/{quote(item)}", {"hidden": True})

    def cpu(self) -> float:
        """Seconds of CPU so far, of workers that ended, too."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        ticks = 0
        for pid in (self.pid, *children):
            with suppress(FileNotFoundError):
                # After the name: its own time is in fields 12 and 13, that of its dead in 14, 15.
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
                ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_service(data_dir: Path, workers: int) -> Iterator[Service]:
    """`mom-pipeline serve` on a free port, warm, stopped after the block."""
    process = subprocess.Popen(  # noqa: S603 - a command of ours
        [sys.executable, "-u", "-m", "mom_pipeline", "serve", "--port=0", f"--workers={workers}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"MOM_DATA_DIR": str(data_dir)},
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        service = Service(int(line.split()[1].rpartition(":")[2]), process.pid)
        load(service, clients=_WARM_UP, requests=_WARM_UP)
        yield service
    finally:
        process.terminate()
        process.wait(_SECONDS_TO_STOP)


def load(
    service: Service, *, clients: int, requests: int, change: Callable[[], object] | None = None
) -> Load:
    """Ask so many times, by several clients; a change is made in the middle of it."""
    users = np.random.default_rng(0).integers(_USERS_ASKED, size=requests).tolist()
    begin, before, half = time.perf_counter(), service.cpu(), Event()

    def ask(client: int) -> list[Answer]:
        connection, answers = service.connection(), list[Answer]()
        for user in users[client::clients]:
            question = partial(_ask, connection, "GET", f"/recommend/user%20{user}")
            took, answer = timed(question)
            items = [line["item"] for line in answer.get("items", ())]
            answers.append((took, str(answer.get("model", answer.get("error"))), items))
            if len(answers) * clients >= requests // 2:
                half.set()
        return answers

    with ThreadPoolExecutor(clients) as pool:
        asked = pool.map(ask, range(clients))
        if change:
            half.wait()
            change()
        answers = [answer for own in asked for answer in own]
    return Load(time.perf_counter() - begin, service.cpu() - before, answers)


def tell(service: Service, events: int) -> Load:
    """Tell events at a steady rate, one a request; each of those acknowledged has its item."""
    begin, name = time.perf_counter(), os.urandom(4).hex()

    def some(client: int) -> list[Answer]:
        connection, told = service.connection(), list[Answer]()
        for k in range(client, events, _TELLERS):
            time.sleep(max(0.0, begin + k / _EVENTS_PER_SECOND - time.perf_counter()))
            item = f"item {k % 50}"
            event = {"user": f"user {k % _USERS_ASKED}", "item": item, "id": f"{name} {k}"}
            took, answer = timed(partial(_ask, connection, "POST", "/events", event))
            accepted = answer.get("accepted") == 1
            told.append((took, "" if accepted else str(answer), [item] * accepted))
        return told

    with ThreadPoolExecutor(_TELLERS) as pool:
        answers = [answer for own in pool.map(some, range(_TELLERS)) for answer in own]
    return Load(time.perf_counter() - begin, 0.0, answers)


def _ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any = None
) -> dict[str, Any]:
    """The answer of a service, or {"error": what went wrong}."""
    text = None if body is None else json.dumps(body)
    try:
        connection.request(method, path, text, {"Content-Type": "application/json"})
        return dict(json.loads(connection.getresponse().read()))
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return {"error": repr(error)}
