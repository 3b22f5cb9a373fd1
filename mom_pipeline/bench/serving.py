"""Benchmarks of one list: against `implicit` in one run, over HTTP under load, and from a file."""

import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import duckdb
import numpy as np

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import timed
from mom_pipeline.comparison.methods.rivals import as_user_items
from mom_pipeline.comparison.run import Progress, no_progress
from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Csr
from mom_pipeline.exports.model_file import write_model_file
from mom_pipeline.serving.events import EventStore
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings, load_settings

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


_USERS, _ITEMS, _ITEMS_PER_USER = 20_000, 100_000, 20
_LIST = 20
_QUESTIONS = 400
# Times that each service is asked a part; questions to a file.
_TURNS, _OF_FILE = 6, 100
_WEIGHTS = RankingWeights()


def _histories(scale: float, seed: int = 0) -> Csr:
    """Return clustered histories of 20,000 users; scale: of the number of items."""
    rng, n_items = np.random.default_rng(seed), round(scale * _ITEMS)
    return as_interactions(clustered_interactions(_USERS, n_items, _USERS * _ITEMS_PER_USER, rng))


def _served(X: Csr, n_components: int, ranking: str, seed: int | None = None) -> ServedModel:
    """Fit a model in a hurry: few passes, no weights chosen. seed: of days; None: all on one."""
    how: dict[str, Any] = {"ranking": ranking, "ranking_weights": _WEIGHTS, "max_passes": 4}
    days = X.astype(np.float64)
    days.data[:] = 1.0
    if seed is not None:
        days.data = np.random.default_rng(seed).integers(738_000, 738_030, X.nnz).astype(float)
    model = MethodOfMoments(n_components, **how).fit(X, last_days=None if seed is None else days)
    users, items = (
        np.array([f"{kind} {number}" for number in range(n)], dtype=object)
        for kind, n in zip(("user", "item"), X.shape, strict=True)
    )
    wanted = asdict(ModelSettings(n_components=n_components))
    manifest = Manifest("", "2024-01-01", "bench", "", wanted, {}, {})
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
        rows.append({"ranking": ranking, **_compared(times)})
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


def _compared(times: dict[str, list[float]]) -> dict[str, float]:
    figures = dict[str, float]()
    for name, seconds in times.items():
        kept = 1000 * np.array(seconds[_WARM_UP:])
        figures[f"{name}_median_ms"] = float(np.median(kept))
        figures[f"{name}_p99_ms"] = float(np.quantile(kept, 0.99))
    return figures | {"ratio": figures["ours_median_ms"] / figures["implicit_median_ms"]}


def run_serve(
    scale: float = 1.0,
    *,
    n_components: int = 100,
    requests: int = 3_000,
    clients: int = 4,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Ask services of 1 and 2 workers in turns, once while models change; beside events; a file.

    An item is hidden, and looked for in the answers from a second later on, and after a restart.
    """
    with tempfile.TemporaryDirectory() as place:
        folder, ask = Path(place) / "data", partial(load, clients=clients)
        registry = ModelRegistry(folder / "models")
        first, second = (
            registry.add(_served(_histories(scale, seed), n_components, "three-moment", seed))
            for seed in (0, 1)
        )
        registry.promote(first, "bench")

        def change() -> None:
            if registry.champion_version() == first:
                registry.promote(second, "bench")
            else:
                registry.rollback("bench")

        loads = defaultdict[str, list[Load]](list)
        with running_service(folder, 1) as one, running_service(folder, 2) as two:
            services = {"1 worker": one, "2 workers": two}
            for turn, (how, service) in product(range(_TURNS), services.items()):
                progress(how, turn / _TURNS)
                changing = change if turn == _TURNS // 2 else None
                asked = ask(service, requests=requests // _TURNS, change=changing)
                loads[how].append(asked)
            events = dict[str, list[Load]]()
            for how, service in services.items():
                progress(f"{how}, beside events", 1)
                asked, told = _beside_events(service, requests, ask)
                loads[f"{how}, beside events"], events[how] = [asked], [told]
            (item, _), *_ = Counter(
                y for each in loads["2 workers"] for _, _, items in each.answers for y in items
            ).most_common(1)
            one.hide(item)
            time.sleep(1)
            looked = [ask(service, requests=-(-requests * 10 // 9)) for service in (one, two)]
        with running_service(folder, 2) as again:
            looked.append(ask(again, requests=-(-requests * 10 // 9)))
        [[stored]] = EventStore(load_settings(folder)).rows("SELECT count(*) FROM events")
        loads["in a file"] = [_asked_of_file(folder, Path(place) / "model.duckdb")]
    after = [items for each in looked for _, _, items in each.answers]
    rows, told_rows = (
        [{"how": how, **summary(own)} for how, own in each.items()] for each in (loads, events)
    )
    return {
        "clients": clients,
        "two_workers_to_one": rows[1]["per_second"] / rows[0]["per_second"],
        "answers_after_an_item_is_hidden": len(after),
        "of_these_with_it": sum(item in items for items in after),
        "events_lost_or_doubled": sum(row["requests"] for row in told_rows) - int(stored),
        "rows": rows,
        "events": told_rows,
    }


def _beside_events(service: Service, requests: int, ask: Callable[..., Load]) -> tuple[Load, Load]:
    """Ask while another process tells as many events; the questions, and the events."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        telling = pool.submit(tell, service, requests)
        return ask(service, requests=requests), telling.result()


def _asked_of_file(folder: Path, path: Path) -> Load:
    """Ask the same model as a file that DuckDB opens."""
    write_model_file(load_settings(folder), path)
    with duckdb.connect(str(path), read_only=True) as file:
        asked = [timed(partial(_rows_of, file, f"user {u}")) for u in range(_WARM_UP + _OF_FILE)]
    answers = [(took, "in a file", [item for (item,) in rows]) for took, rows in asked[_WARM_UP:]]
    return Load(sum(took for took, *_ in answers), 0.0, answers)


def _rows_of(file: duckdb.DuckDBPyConnection, user: str) -> list[tuple[str]]:
    return file.execute("SELECT item_id FROM recommend($1)", [user]).fetchall()
