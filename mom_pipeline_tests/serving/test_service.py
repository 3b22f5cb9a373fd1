"""The running service: answers, refusals, and models that change under load."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline import Recommender
from mom_pipeline.core.interactions import MAX_ID
from mom_pipeline.serving.messages import MAX_BODY_BYTES
from mom_pipeline.serving.recommender import MAX_HISTORY, MAX_LIST
from mom_pipeline.serving.registry import POINTER
from mom_pipeline.serving.served_model import MODEL
from mom_pipeline_tests.running import flip, wait_until
from mom_pipeline_tests.serving.service import encoded, running_service

from .conftest import ODD, in_use

THREADS, ROUNDS = 4, 6
# By default a body that is refused for its length alone, 413, is not taken for refused.
SCHEMATHESIS = """
[checks]
negative_data_rejection.expected-statuses = [400, 404, 405, 413, 415, 422]

# A time in the future is one by its form.
[[operations]]
include-path = "/events"
checks.positive_data_acceptance.expected-statuses = [200, 404, 422]
"""


def with_odd_ids(served):
    for ids in (served.item_ids, served.user_ids):
        ids[: len(ODD)] = ODD
    return served


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("serving")


@pytest.fixture(scope="module")
def registry(data_dir, make):
    return in_use(data_dir, with_odd_ids(make(1)))


@pytest.fixture(scope="module")
def service(data_dir, registry):
    with running_service(data_dir) as running:
        yield running


def items_of(answer):
    return [(line["item"], line["score"]) for line in answer["items"]]


@pytest.mark.parametrize("name", [*ODD, "user 50"])
def test_answers_are_those_of_the_recommender(service, registry, name):
    expected = Recommender(registry.champion())
    status, answer = service.get(f"/recommend/{encoded(name)}?n=7")
    assert (status, answer["user"], answer["fallback"]) == (200, name, False)
    wanted = expected.recommend(name, 7).items
    assert [item for item, _ in items_of(answer)] == [line.item for line in wanted]
    np.testing.assert_allclose([s for _, s in items_of(answer)], [line.score for line in wanted])
    if name in ODD:
        status, answer = service.get(f"/similar/{encoded(name)}?n=3")
        wanted = [line.item for line in expected.similar(name, 3).items]
        assert (status, answer["item"]) == (200, name)
        assert [item for item, _ in items_of(answer)] == wanted
        status, answer = service.post("/recommend", {"items": [name], "n": 3})
        wanted = [line.item for line in expected.recommend_items([name], 3).items]
        assert (status, answer["user"]) == (200, None)
        assert [item for item, _ in items_of(answer)] == wanted


def test_unknown_users_and_items(service):
    status, answer = service.get("/recommend/nobody")
    assert (status, answer["fallback"]) == (200, True)
    assert "'nobody'" in answer["note"]
    status, answer = service.get("/similar/nothing")
    assert (status, answer["error"]) == (404, "the model does not know the item 'nothing'")
    status, answer = service.post("/recommend", {"items": ["nothing", ODD[0]]})
    assert (status, answer["fallback"], answer["unknown_items"]) == (200, False, ["nothing"])


@pytest.mark.parametrize("query", ["n=0", f"n={MAX_LIST + 1}", "n=", "n=-1", "n=1&n=2", "m=1"])
def test_lengths_outside_of_the_limits(service, query):
    status, answer = service.get(f"/recommend/someone?{query}")
    assert status == 422
    assert "n" in answer["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *((body, 400) for body in (b"", b"{", b"\xff", b'{"items": NaN}', b"[" * 100_000)),
        (b'{"items": ["a"], "n": ' + b"9" * 5000 + b"}", 400),
        *((b'{"items": ["a"], "n": %s}' % n, 422) for n in (b"1e999", b"true", b"1.5", b"0")),
        *((b'{"items": %s}' % x, 422) for x in (b"[]", b'"abc"', b"[1]", b'[""]', b'["\\ud800"]')),
        (b'{"items": ["a"], "more": 1}', 422),
        (b'["a"]', 422),
    ],
)
def test_bodies_that_are_refused(service, body, status):
    refused, answer = service.post("/recommend", body)
    assert (refused, list(answer)) == (status, ["error"])


def test_lists_and_bodies_that_are_too_long(service):
    assert service.post("/recommend", {"items": ["a"] * MAX_HISTORY})[0] == 200
    assert service.post("/recommend", {"items": ["a"] * (MAX_HISTORY + 1)})[0] == 422
    assert service.post("/recommend", {"items": ["a" * (MAX_ID + 1)]})[0] == 422
    assert service.post("/recommend", b" " * (MAX_BODY_BYTES + 1))[0] == 413
    assert service.post("/recommend", {"items": ["a"]}, **{"Content-Type": "text/plain"})[0] == 415


def test_addresses_that_there_are_not(service):
    for path in ("/recommend/", "/similar/", "/nothing"):
        status, answer = service.get(path)
        assert (status, list(answer)) == (404, ["error"])
    assert service.get("/recommend")[0] == 405
    assert service.ask("DELETE", "/recommend/x", None, {})[0] == 405
    for path, status in (("/health", 200), ("/recommend/user%2050", 200), ("/recommend", 405)):
        assert service.ask("HEAD", path, None, {})[0] == status  # as GET
    for path in ("/recommend/%ff", "/similar/a%C3"):
        assert service.get(path) == (422, {"error": "the address is not percent-encoded UTF-8"})


def test_a_client_that_leaves_in_the_middle_harms_nobody(service):
    before = service.output.read_text()
    head = b"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % service.port
    head += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", service.port)) as client:
            client.sendall(head)
    assert service.get("/health")[0] == 200
    wait_until(lambda: service.get("/health")[0] == 200, "health")
    assert service.output.read_text() == before


@pytest.fixture
def own_service(tmp_path, make):
    """One that may be told anything."""
    in_use(tmp_path / "own", with_odd_ids(make(1)))
    with running_service(tmp_path / "own") as running:
        yield running


def test_the_service_keeps_to_its_schema(own_service, tmp_path):
    """What Schemathesis generates from the OpenAPI document."""
    service = own_service
    paths = service.get("/openapi.json")[1]["paths"]
    assert {"/recommend/{user}", "/recommend", "/similar/{item}", "/health", "/model"} <= {*paths}
    assert {method for methods in paths.values() for method in methods} == {"get", "post", "put"}
    (tmp_path / "schemathesis.toml").write_text(SCHEMATHESIS)
    command = Path(sys.executable).with_name("schemathesis")
    address = f"http://127.0.0.1:{service.port}/openapi.json"
    done = subprocess.run(
        [command, "run", address, "--seed", "1", "--max-examples", "25", "--no-color"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert service.process.poll() is None


def test_the_model_says_what_it_is_to_this_machine_alone(service, registry):
    assert service.get("/health", Host="attacker.example")[0] == 403
    assert service.get("/health", Origin="http://attacker.example")[0] == 403
    status, about = service.get("/model")
    assert (status, about["version"]) == (200, registry.champion_version())
    assert (about["users"], about["items"]) == (200, 30)
    assert service.get("/health")[1] == {"status": "ok", "model": about["version"], "problem": None}


def test_nothing_is_lost_while_models_change(data_dir, registry, service, make):
    """Every answer under load is a whole one, of one of the two models."""
    first = registry.champion_version()
    second = registry.add(with_odd_ids(make(2)))
    models = {version: Recommender(registry.load(version)) for version in (first, second)}
    expected = {
        version: [line.item for line in model.recommend("user 60").items]
        for version, model in models.items()
    }
    stop, failures = threading.Event(), []
    counts = {first: 0, second: 0}

    def load() -> None:
        while not stop.is_set():
            try:
                status, answer = service.get("/recommend/user%2060")
                if status != 200 or [i for i, _ in items_of(answer)] != expected[answer["model"]]:
                    failures.append((status, answer))
                counts[answer["model"]] += 1
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(ROUNDS):
            if turn % 2 == 0:
                registry.promote(second, "a test")
            else:
                registry.rollback("a test")
            before = counts.copy()
            now = registry.champion_version()
            wait_until(lambda now=now, before=before: counts[now] > before[now] + 20, "answers")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert min(counts.values()) >= 20 * ROUNDS / 2
    assert registry.champion_version() == first
    assert service.version() == first


def test_a_damaged_champion_leaves_the_one_before_in_use(registry, service, make):
    kept, pointer = service.version(), registry.root / POINTER
    new = registry.add(with_odd_ids(make(3)))
    history = pointer.read_text()
    registry.promote(new, "a test")
    promoted = pointer.read_text()
    wait_until(lambda: service.version() == new, "the new model")
    registry.rollback()
    wait_until(lambda: service.version() == kept, "the model before")
    flip(registry.folder(new) / MODEL)
    pointer.write_text(promoted)
    wait_until(lambda: service.get("/health")[1]["status"] == "degraded", "the damage")
    status, health = service.get("/health")
    assert (status, health["model"]) == (200, kept)
    assert new in health["problem"]
    assert kept in health["problem"]
    assert service.get("/recommend/user%2060")[1]["model"] == kept
    pointer.write_text("{")
    wait_until(lambda: POINTER in service.get("/health")[1]["problem"], "the pointer")
    assert service.get("/recommend/user%2060")[1]["model"] == kept
    pointer.write_text(history)
    wait_until(lambda: service.get("/health")[1]["status"] == "ok", "health")


def test_without_a_champion_it_waits_for_one(tmp_path, make):
    with running_service(tmp_path) as service:
        status, answer = service.get("/recommend/someone")
        assert status == 503
        assert "mom-pipeline update" in answer["error"]
        status, answer = service.get("/health")
        assert (status, answer["status"], answer["model"]) == (503, "unavailable", None)
        assert service.get("/model")[0] == 503
        in_use(tmp_path, make(1))
        wait_until(lambda: service.get("/health")[0] == 200, "the first model")
        assert service.get("/recommend/user%201")[0] == 200
    assert service.process.returncode == 0
    assert service.output.read_text().endswith("Stopped.\n")
    assert not (tmp_path / "warehouse.duckdb").exists()


def test_200_connections_at_once_are_all_answered(service):
    request = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nConnection: close\r\n\r\n"

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(request.encode())
        said = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return said

    async def ask_all() -> list[bytes]:
        return await asyncio.gather(*(ask() for _ in range(200)))

    # In a thread: other tests may leave a loop running in this one.
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(asyncio.run, ask_all()).result()
    assert [said[:12] for said in answers] == [b"HTTP/1.1 200"] * 200
