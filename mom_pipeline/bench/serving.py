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
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.measure import Progress, no_progress
from mom_pipeline.comparison.methods.rivals import as_user_items, implicit_library
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.low_pass import LowPass, scaled_pairs
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

_USERS = 20_000
_ITEMS_PER_USER = 20
_LIST = 20
_WARM_UP = 20
_ITEMS = 100_000
_QUESTIONS = 400
_SECONDS_TO_STOP = 30
_USERS_ASKED = 1_000


def synthetic_model(
    n_items: int, n_components: int, *, ranking: str, skew: float, seed: int = 0
) -> ServedModel:
    """A model of random components: items fall in popularity as rank^-skew."""
    rng = np.random.default_rng(seed)
    popularity = np.arange(1, n_items + 1) ** -skew
    rng.shuffle(popularity)
    O = rng.gamma(0.3, size=(n_items, n_components)).astype(np.float32)
    O *= popularity[:, None].astype(np.float32)
    O /= O.sum(axis=0)
    weights = rng.dirichlet(np.full(n_components, 5.0))
    X = _histories(rng, O)
    pair_ranking = _pair_ranking(rng, X, n_components) if ranking == "three-moment" else None
    model = FittedModel(
        item_probs=O,
        weights=weights,
        popularity=popularity / popularity.sum(),
        personalization=Personalization("em"),
        pair_ranking=pair_ranking,
    )
    items = np.array([f"item {y}" for y in range(n_items)], dtype=object)
    users = np.array([f"user {u}" for u in range(_USERS)], dtype=object)
    settings = asdict(ModelSettings(n_components=n_components))
    manifest = Manifest("", "2024-01-01", "bench", f"seed {seed}", settings, {}, {})
    return ServedModel(manifest, model, items, users, X)


def run_query(
    scale: float = 1.0, *, n_components: int = 100, progress: Progress = no_progress
) -> dict[str, Any]:
    """Ask both about the same users in turns; milliseconds, and the ratio of the medians."""
    cases = (("components", 0.0), ("components", 0.8), ("three-moment", 0.8))
    n_items, rows = round(scale * _ITEMS), []
    for done, (ranking, skew) in enumerate(cases):
        served = synthetic_model(n_items, n_components, ranking=ranking, skew=skew)
        with implicit_library():
            times = _in_turns(served, n_components)
        rows.append({"ranking": ranking, "skew": skew, **_summary(times)})
        progress(f"{ranking}, skew {skew}", (done + 1) / len(cases))
    return {"n_items": n_items, "n_components": n_components, "rows": rows}


def _in_turns(served: ServedModel, n_components: int) -> dict[str, list[float]]:
    """Seconds of every question, asked of one and then of the other."""
    from implicit.cpu.als import AlternatingLeastSquares

    ours = Recommender(served)
    peer = AlternatingLeastSquares(factors=n_components, num_threads=1)
    rng = np.random.default_rng(1)
    peer.item_factors = rng.normal(size=(len(served.item_ids), n_components)).astype(np.float32)
    peer.user_factors = rng.normal(size=(_USERS, n_components)).astype(np.float32)
    liked = as_user_items(served.histories)
    times: dict[str, list[float]] = {"ours": [], "implicit": []}
    for question in range(_QUESTIONS + _WARM_UP):
        user = question % _USERS
        start = time.perf_counter()
        ours.recommend(f"user {user}", _LIST)
        middle = time.perf_counter()
        peer.recommend(user, liked[user], N=_LIST)
        times["ours"].append(middle - start)
        times["implicit"].append(time.perf_counter() - middle)
    return times


def _summary(times: dict[str, list[float]]) -> dict[str, float]:
    summary: dict[str, float] = {}
    for name, seconds in times.items():
        kept = 1000 * np.array(seconds[_WARM_UP:])
        summary[f"{name}_median_ms"] = float(np.median(kept))
        summary[f"{name}_p99_ms"] = float(np.quantile(kept, 0.99))
    return summary | {"ratio": summary["ours_median_ms"] / summary["implicit_median_ms"]}


def _histories(rng: np.random.Generator, O: Array) -> Csr:
    """Users of one or two components, each with some items."""
    D, K = O.shape
    cumulated = O.cumsum(axis=0, dtype=np.float64)

    def items_of(k: int) -> Array:
        draws = rng.random(_ITEMS_PER_USER // 2) * cumulated[-1, k]
        return np.minimum(np.searchsorted(cumulated[:, k], draws), D - 1)

    tastes = rng.choice(K, (_USERS, 2))
    rows = [np.unique(np.concatenate([items_of(k) for k in pair])) for pair in tastes]
    ends = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate(rows)
    return sparse.csr_array((np.ones(len(indices)), indices, ends), shape=(_USERS, D))


def _pair_ranking(rng: np.random.Generator, X: Csr, rank: int) -> PairRanking:
    weights = RankingWeights()
    users = UsersInMemory(X)
    pairs = scaled_pairs(users, weights.user_exponent, weights.low_pass_scaling)
    low_pass = LowPass.from_pairs(pairs, rng, rank=rank, tol=1e-2, max_passes=6)
    return PairRanking.from_users(users, low_pass, weights)


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
        registry, n_items = ModelRegistry(Path(folder) / "models"), round(scale * _ITEMS)
        first, second = (
            registry.add(
                synthetic_model(n_items, n_components, ranking="components", skew=0.8, seed=seed)
            )
            for seed in (0, 1)
        )
        registry.promote(first, "bench")
        steps: list[Callable[[], object]] = [
            lambda: registry.promote(second, "bench"),
            lambda: registry.rollback("bench"),
            lambda: None,
        ]
        with _service(Path(folder)) as port:
            begin = time.perf_counter()
            answers = _load(port, clients, requests, steps, progress)
            elapsed = time.perf_counter() - begin
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
    """Ask so many times, by several clients; a step is taken after each equal share of them."""
    stop, answers = threading.Event(), list[tuple[float, str]]()

    def client(seed: int) -> None:
        rng = np.random.default_rng(seed)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while not stop.is_set():
            answers.append(_answer(connection, int(rng.integers(_USERS_ASKED))))
        connection.close()

    with ThreadPoolExecutor(clients) as pool:
        done = [pool.submit(client, seed) for seed in range(clients)]
        try:
            for turn, step in enumerate(steps, start=1):
                while len(answers) < requests * turn / len(steps):
                    progress("requests", min(len(answers) / requests, 1.0))
                    time.sleep(0.05)
                step()
        finally:
            stop.set()
    for future in done:
        future.result()
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
