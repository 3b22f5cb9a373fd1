"""Load on the running service, with a promotion and a rollback in the middle."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench.serving import synthetic_model
from mom_pipeline.serving.registry import ModelRegistry

_SECONDS_TO_STOP = 30
_USERS = 1_000


@dataclass
class _Tally:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    models: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def asked(self) -> int:
        return len(self.seconds) + self.errors.total()


def run_serve(
    n_items: int,
    n_components: int,
    requests: int,
    clients: int,
    *,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Ask until so many requests were made; promote after a third, roll back after two."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        registry = ModelRegistry(data_dir / "models")
        versions = [
            registry.add(
                synthetic_model(n_items, n_components, ranking="classes", skew=0.8, seed=seed)
            )
            for seed in (0, 1)
        ]
        registry.promote(versions[0], "bench")
        steps: list[Callable[[], object]] = [
            lambda: registry.promote(versions[1], "bench"),
            lambda: registry.rollback("bench"),
            lambda: None,
        ]
        tally = _Tally()
        with _service(data_dir) as port:
            start = time.perf_counter()
            with _clients(port, clients, tally):
                for turn, step in enumerate(steps, start=1):
                    while tally.asked < requests * turn / 3:
                        progress(min(tally.asked / requests, 1.0))
                        time.sleep(0.05)
                    step()
            elapsed = time.perf_counter() - start
    milliseconds = 1000 * np.array(tally.seconds)
    return {
        "requests": tally.asked,
        "errors": tally.errors.total(),
        "kinds_of_errors": ", ".join(tally.errors) or "none",
        "answers_of_the_first_model": tally.models[versions[0]],
        "answers_of_the_promoted_model": tally.models[versions[1]],
        "clients": clients,
        "requests_per_second": tally.asked / elapsed,
        "p50_ms": float(np.median(milliseconds)),
        "p99_ms": float(np.quantile(milliseconds, 0.99)),
        "longest_ms": float(milliseconds.max()),
    }


@contextmanager
def _service(data_dir: Path) -> Iterator[int]:
    """`mom-pipeline serve` on a free port, stopped after the block."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "mom_pipeline", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"MOM_DATA_DIR": str(data_dir)},
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        yield int(line.split()[1].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(_SECONDS_TO_STOP)


@contextmanager
def _clients(port: int, number: int, tally: _Tally) -> Iterator[None]:
    """So many threads that ask one after the other, each on its own connection."""
    stop, lock = threading.Event(), threading.Lock()

    def client(seed: int) -> None:
        rng = np.random.default_rng(seed)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while not stop.is_set():
            path = f"/recommend/user%20{rng.integers(_USERS)}"
            start = time.perf_counter()
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                body = response.read()
                seconds = time.perf_counter() - start
                found = None if response.status == 200 else f"status {response.status}"
            except (OSError, http.client.HTTPException) as error:
                found = repr(error)
                connection.close()
            with lock:
                if found is None:
                    tally.seconds.append(seconds)
                    tally.models[json.loads(body)["model"]] += 1
                else:
                    tally.errors[found] += 1
        connection.close()

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
