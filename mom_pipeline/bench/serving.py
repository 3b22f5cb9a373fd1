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
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.measure import Progress, Table, no_progress
from mom_pipeline.comparison.methods.interface import as_user_items, missing_implicit
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.low_pass import LowPass, scaled_pairs
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

_USERS = 20_000
_ITEMS_PER_USER = 20
_LIST = 20
_WARM_UP = 20
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
    n_items: int,
    n_components: int,
    questions: int,
    *,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Ask both about the same users in turns; milliseconds, and the ratio of the medians."""
    cases = (("components", 0.0), ("components", 0.8), ("three-moment", 0.8))
    rows = []
    for done, (ranking, skew) in enumerate(cases):
        served = synthetic_model(n_items, n_components, ranking=ranking, skew=skew)
        with one_blas_thread():
            times = _in_turns(served, n_components, questions)
        rows.append({"ranking": ranking, "skew": skew, **_summary(times)})
        progress(f"{ranking}, skew {skew}", (done + 1) / len(cases))
    return {"n_items": n_items, "n_components": n_components, "questions": questions, "rows": rows}


def _in_turns(served: ServedModel, n_components: int, questions: int) -> dict[str, list[float]]:
    """Seconds of every question, asked of one and then of the other."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError as error:
        raise missing_implicit("bench query", error) from error
    ours = Recommender(served)
    peer = AlternatingLeastSquares(factors=n_components, num_threads=1)
    rng = np.random.default_rng(1)
    peer.item_factors = rng.normal(size=(len(served.item_ids), n_components)).astype(np.float32)
    peer.user_factors = rng.normal(size=(_USERS, n_components)).astype(np.float32)
    liked = as_user_items(served.histories)
    times: dict[str, list[float]] = {"ours": [], "implicit": []}
    for question in range(questions + _WARM_UP):
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
        summary |= {
            f"{name}_best_ms": float(kept.min()),
            f"{name}_median_ms": float(np.median(kept)),
            f"{name}_p99_ms": float(np.quantile(kept, 0.99)),
        }
    return summary | {"ratio": summary["ours_median_ms"] / summary["implicit_median_ms"]}


def tables_query(result: dict[str, Any]) -> list[Table]:
    """A row per ranking and skew."""
    names = ("ours_median_ms", "ours_p99_ms", "implicit_median_ms", "implicit_p99_ms", "ratio")
    rows = [
        {"ranking": row["ranking"], "skew": f"{row['skew']:.1f}"}
        | {name.replace("_", " "): f"{row[name]:.2f}" for name in names}
        for row in result["rows"]
    ]
    return [Table(f"One user, D = {result['n_items']:,}, K = {result['n_components']}", rows)]


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


@dataclass
class _Tally:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    models: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def asked(self) -> int:
        return len(self.seconds) + self.errors.total()

    def summary(self, elapsed: float) -> dict[str, Any]:
        """Return counts, the rate over the seconds elapsed, and milliseconds of an answer."""
        milliseconds = 1000 * np.array(self.seconds)
        return {
            "requests": self.asked,
            "errors": self.errors.total(),
            "kinds_of_errors": ", ".join(self.errors) or "none",
            "requests_per_second": self.asked / elapsed,
            "p50_ms": float(np.median(milliseconds)),
            "p99_ms": float(np.quantile(milliseconds, 0.99)),
            "longest_ms": float(milliseconds.max()),
        }


def run_serve(
    n_items: int,
    n_components: int,
    requests: int,
    clients: int,
    *,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Ask until so many requests were made; promote after a third, roll back after two."""
    with tempfile.TemporaryDirectory() as folder:
        registry = ModelRegistry(Path(folder) / "models")
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
            start = time.perf_counter()
            tally = _load(port, clients, requests, steps, progress)
            elapsed = time.perf_counter() - start
    return {
        "answers_of_the_first_model": tally.models[first],
        "answers_of_the_promoted_model": tally.models[second],
        "clients": clients,
        **tally.summary(elapsed),
    }


def _load(
    port: int,
    clients: int,
    requests: int,
    steps: Sequence[Callable[[], object]],
    progress: Progress,
) -> _Tally:
    """Ask so many times; a step is taken after each equal share of the requests."""
    tally = _Tally()
    with _clients(port, clients, tally):
        for turn, step in enumerate(steps, start=1):
            while tally.asked < requests * turn / len(steps):
                progress("requests", min(tally.asked / requests, 1.0))
                time.sleep(0.05)
            step()
    return tally


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
            seconds, model, error = _asked(connection, int(rng.integers(_USERS_ASKED)))
            with lock:
                if error:
                    tally.errors[error] += 1
                else:
                    tally.seconds.append(seconds)
                    tally.models[model] += 1
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


def _asked(connection: http.client.HTTPConnection, user: int) -> tuple[float, str, str]:
    """Ask for one list; returns seconds, the version that answered, and what went wrong."""
    start = time.perf_counter()
    try:
        connection.request("GET", f"/recommend/user%20{user}")
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return 0.0, "", repr(error)
    if response.status != 200:
        return 0.0, "", f"status {response.status}"
    return time.perf_counter() - start, json.loads(body)["model"], ""
