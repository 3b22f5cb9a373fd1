"""Benchmarks of one list: against `implicit` in one run, and over HTTP under load."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import timed
from mom_pipeline.comparison.methods.rivals import as_user_items
from mom_pipeline.comparison.run import Progress, no_progress
from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Csr
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

_USERS, _ITEMS, _ITEMS_PER_USER = 20_000, 100_000, 20
_LIST = 20
_WARM_UP, _QUESTIONS = 20, 400
_USERS_ASKED = 1_000
_SECONDS_TO_STOP = 30
_WEIGHTS = RankingWeights()


def _histories(scale: float, seed: int = 0) -> Csr:
    """Return clustered histories of 20,000 users; scale: of the number of items."""
    rng, n_items = np.random.default_rng(seed), round(scale * _ITEMS)
    return as_interactions(clustered_interactions(_USERS, n_items, _USERS * _ITEMS_PER_USER, rng))


def _served(X: Csr, n_components: int, ranking: str) -> ServedModel:
    """Fit a model in a hurry: few passes, no weights chosen."""
    how: dict[str, Any] = {"ranking": ranking, "ranking_weights": _WEIGHTS, "max_passes": 4}
    model = MethodOfMoments(n_components, **how).fit(X)
    users, items = (
        np.array([f"{kind} {number}" for number in range(n)], dtype=object)
        for kind, n in zip(("user", "item"), X.shape, strict=True)
    )
    wanted = asdict(ModelSettings(n_components=n_components))
    manifest = Manifest("", "2024-01-01", "bench", "", wanted, {}, {})
    days = X.astype(np.float64)
    days.data[:] = 1.0
    return ServedModel(manifest, model.fitted, items, users, X, days)


def run_query(
    scale: float = 1.0, *, n_components: int = 100, progress: Progress = no_progress
) -> dict[str, Any]:
    """Ask both about the same users in turns; milliseconds, and the ratio of the medians."""
    X, rankings, rows = _histories(scale), ("components", "three-moment"), list[dict[str, Any]]()
    for ranking in rankings:
        progress(ranking, len(rows) / len(rankings))
        with one_blas_thread():
            times = _in_turns(_served(X, n_components, ranking), n_components)
        rows.append({"ranking": ranking, **_summary(times)})
    return {"n_items": X.shape[1], "n_components": n_components, "rows": rows}


def _in_turns(served: ServedModel, n_components: int) -> dict[str, list[float]]:
    """Seconds of every question, asked of one and then of the other."""
    from implicit.cpu.als import AlternatingLeastSquares

    ours, rng = Recommender(served), np.random.default_rng(1)
    peer = AlternatingLeastSquares(factors=n_components, num_threads=1)
    peer.item_factors = rng.normal(size=(len(served.item_ids), n_components)).astype(np.float32)
    peer.user_factors = rng.normal(size=(_USERS, n_components)).astype(np.float32)
    liked = as_user_items(served.histories)
    times: dict[str, list[float]] = {"ours": [], "implicit": []}
    for user in range(_QUESTIONS + _WARM_UP):
        times["ours"].append(timed(partial(ours.recommend, f"user {user}", _LIST))[0])
        times["implicit"].append(timed(partial(peer.recommend, user, liked[user], N=_LIST))[0])
    return times


def _summary(times: dict[str, list[float]]) -> dict[str, float]:
    summary: dict[str, float] = {}
    for name, seconds in times.items():
        kept = 1000 * np.array(seconds[_WARM_UP:])
        summary[f"{name}_median_ms"] = float(np.median(kept))
        summary[f"{name}_p99_ms"] = float(np.quantile(kept, 0.99))
    return summary | {"ratio": summary["ours_median_ms"] / summary["implicit_median_ms"]}


def run_serve(
    scale: float = 1.0,
    *,
    n_components: int = 100,
    requests: int = 3_000,
    clients: int = 4,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Ask until so many requests were made; promote after a third, roll back after two."""
    with tempfile.TemporaryDirectory() as folder:
        registry = ModelRegistry(Path(folder) / "models")
        first, second = (
            registry.add(_served(_histories(scale, seed), n_components, "components"))
            for seed in (0, 1)
        )
        registry.promote(first, "bench")
        steps: list[Callable[[], object]] = [
            lambda: registry.promote(second, "bench"),
            lambda: registry.rollback("bench"),
            lambda: None,
        ]
        with _service(Path(folder)) as port:
            elapsed, answers = timed(lambda: _load(port, clients, requests, steps, progress))
    milliseconds = [1000 * seconds for seconds, model in answers if model in (first, second)]
    errors = Counter(model for _, model in answers if model not in (first, second))
    return {
        "answers_of_the_first_model": sum(model == first for _, model in answers),
        "answers_of_the_promoted_model": sum(model == second for _, model in answers),
        "clients": clients,
        "requests": len(answers),
        "errors": errors.total(),
        "kinds_of_errors": ", ".join(errors) or "none",
        "requests_per_second": len(answers) / elapsed,
        "p50_ms": float(np.median(milliseconds)),
        "p99_ms": float(np.quantile(milliseconds, 0.99)),
        "longest_ms": max(milliseconds),
    }


def _load(
    port: int,
    clients: int,
    requests: int,
    steps: Sequence[Callable[[], object]],
    progress: Progress,
) -> list[tuple[float, str]]:
    """Ask so many times, by several clients; one of them takes a step after each equal share."""
    local = threading.local()

    def ask(user: int) -> tuple[float, str]:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        return _answer(local.connection, user)

    users = np.random.default_rng(0).integers(_USERS_ASKED, size=requests)
    asked, taken, answers = [], [], list[tuple[float, str]]()
    with ThreadPoolExecutor(clients) as pool:
        for share, step in zip(np.array_split(users, len(steps)), steps, strict=True):
            asked += [pool.submit(ask, user) for user in share.tolist()]
            taken.append(pool.submit(step))
        for future in asked:
            answers.append(future.result())
            progress("requests", len(answers) / requests)
    for step_taken in taken:
        step_taken.result()
    return answers


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


def _answer(connection: http.client.HTTPConnection, user: int) -> tuple[float, str]:
    """Ask for one list; return the seconds, and the version that answered or what went wrong."""
    begin = time.perf_counter()
    try:
        connection.request("GET", f"/recommend/user%20{user}")
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return 0.0, repr(error)
    version = json.loads(body)["model"] if response.status == 200 else f"status {response.status}"
    return time.perf_counter() - begin, version
