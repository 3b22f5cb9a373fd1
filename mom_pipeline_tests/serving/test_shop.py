"""What a shop tells the running service: events, what was shown, hidden items; workers and A/B."""

import gzip
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline import Recommender
from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.erasure.search import files_with
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.serving.events import EventStore, ShopEvent, ShownList
from mom_pipeline.serving.rates import (
    Arm,
    NotShownBetter,
    Trial,
    difference,
    trial_difference,
    wilson,
)
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import mom
from mom_pipeline_tests.data_folder import DataFolder
from mom_pipeline_tests.erasure.test_erasure import erase
from mom_pipeline_tests.running import command, environment, wait_until
from mom_pipeline_tests.serving.service import Service, encoded, running_service, workers_of

from .conftest import D, in_use

SHOP, JSON = "https://shop.example", {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory, make):
    folder = tmp_path_factory.mktemp("shop")
    in_use(folder, make(1))
    items = {f"1/{y}": Item(f"1/{y}", f"No. {y}", "Odd" if y % 2 else "Even") for y in range(D)}
    Catalogue({**items, "new": Item("new", "Not yet")}).save(folder)
    return folder


@pytest.fixture(scope="module")
def service(data_dir):
    with running_service(data_dir, "--workers", "2", "--cors-origin", SHOP) as running:
        yield running


def listed(answer) -> list[str]:
    return [line["item"] for line in answer["items"]]


def event(n: int, **values):
    return {"user": f"user {n}", "item": "1/5", "id": f"order {n}"} | values


def yesterday() -> str:
    return (datetime.now(UTC).date() - timedelta(days=1)).isoformat()


def of_yesterday(store: EventStore, *events: ShopEvent) -> None:
    """Events that came before midnight."""
    with store.writing() as connection:
        store.add(connection, events)
        connection.execute("UPDATE events SET day = ?", (yesterday(),))


def test_an_event_is_in_the_next_answer_and_counts_once(service, data_dir):
    expected = Recommender.open(data_dir)
    before = service.get("/recommend/user%2060?n=9")[1]
    item = before["items"][0]["item"]
    told = {"user": "user 60", "item": item, "time": "2024-03-02T10:00:00Z", "id": "order 60"}
    assert service.post("/events", told) == (200, {"accepted": 1, "known": 0, "erased": 0})
    wanted = expected.recommend("user 60", 9)
    for _ in range(20):  # of both workers
        after = service.get("/recommend/user%2060?n=9")[1]
        assert listed(after) == [line.item for line in wanted.items] != listed(before)
        assert item not in listed(after)
    assert service.post("/events", [told, told])[1] == {"accepted": 0, "known": 2, "erased": 0}
    assert listed(service.get("/recommend/user%2060?n=9")[1]) == listed(after)
    click = {"user": "user 61", "item": "1/5", "type": "click"}
    before = service.get("/recommend/user%2061")[1]
    assert service.post("/events", click)[1]["accepted"] == 1
    assert service.get("/recommend/user%2061")[1] == before
    nobody = {"user": "a newcomer", "item": "1/5"}
    assert service.get("/recommend/a%20newcomer")[1]["fallback"]
    assert service.post("/events", [nobody, nobody | {"item": "new"}])[1]["accepted"] == 2
    assert not service.get("/recommend/a%20newcomer")[1]["fallback"]


FAR = (datetime.now(UTC) + timedelta(days=2)).isoformat()


@pytest.mark.parametrize(
    ("told", "status", "said"),
    [
        ([event(1), event(2, type="stolen")], 404, "1.type: 'stolen' is no type of event"),
        (
            [event(1), event(2, item="of another shop")],
            404,
            "neither in the model nor in items.csv",
        ),
        ([event(1), event(2, time=FAR)], 422, "in the future"),
        ([event(1), event(2, time="2024-03-01T10:00:00")], 422, "timezone"),
        ([event(1), event(2, time="1969-03-01T10:00:00Z")], 422, "before 1970"),
        ([event(1), {"user": "user 2"}], 422, "1.item"),
        ([event(1), event(2, user="a\nb")], 422, "1.user"),
        ([event(1), event(2, more=1)], 422, "more"),
        (event(2, type="stolen"), 404, "type: 'stolen'"),
        ({"user": "user 2"}, 422, "item: "),
        ([], 422, "at least 1"),
        ([event(n, user="u" * 900) for n in range(10_000)], 413, "longer than"),
        (b"[", 400, "not JSON"),
    ],
)
def test_bad_events_leave_nothing(service, data_dir, told, status, said):
    before = EventStore(load_settings(data_dir)).rows("SELECT count(*) FROM events")
    answered, answer = service.post("/events", told)
    assert (answered, list(answer)) == (status, ["error"])
    assert said in answer["error"]
    if isinstance(told, dict):  # no number of an event where there is one
        assert answer["error"].startswith(said)
    assert EventStore(load_settings(data_dir)).rows("SELECT count(*) FROM events") == before


def test_other_pages_may_ask_where_they_are_named(service):
    for origin, status in ((SHOP, 200), ("https://other.example", 403)):
        headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
        answered, answer = service.get("/recommend/user%201", **headers)
        assert answered == status
        assert status == 200 or "Origin must be one of" in answer
        asked = {"Origin": origin, "Access-Control-Request-Method": "PUT"}
        assert service.ask("OPTIONS", "/items/x", None, asked)[0] == (200 if status == 200 else 400)


def test_what_the_shop_says_of_items_is_in_every_answer(data_dir, service):
    """Over both workers, and after a restart."""
    questions = [f"/recommend/{encoded(f'user {n}')}?n=20" for n in range(40)]
    questions += ["/recommend/nobody?n=20", "/similar/1%2F7?n=20"]
    pool = ThreadPoolExecutor(4)

    def asked(running: Service) -> list[list[str]]:
        return [listed(answer) for _, answer in pool.map(running.get, questions)]

    first = asked(service)
    hidden = Counter(item for items in first for item in items).most_common(1)[0][0]
    said = service.put(f"/items/{encoded(hidden)}", {"hidden": True})
    assert said == (200, {"item": hidden, "hidden": True, "boost": 1.0})
    time.sleep(1)
    after = asked(service)
    assert not any(hidden in items for items in after)
    user = next(n for n, items in enumerate(first[:40]) if hidden in items)
    why = service.get(f"/explain?user=user%20{user}&item={encoded(hidden)}")[1]
    assert (why["hidden"], why["place"]) == (True, None)
    last = after[0][2]
    assert service.put(f"/items/{encoded(last)}", {"boost": 10.0})[1]["boost"] == 10.0
    time.sleep(1)
    assert asked(service)[0][0] == last
    why = service.get(f"/explain?user=user%200&item={encoded(last)}")[1]
    assert "boost" in {term["name"] for term in why["moments"]}
    assert why["place"] == 1
    with running_service(data_dir) as again:
        assert not any(hidden in items for items in asked(again))
        assert service.put(f"/items/{encoded(hidden)}", {"hidden": False})[0] == 200
        for item, boost in ((last, 0.05), (last, 11.0), (last, "2")):
            assert service.put(f"/items/{encoded(item)}", {"boost": boost})[0] == 422
        assert service.put(f"/items/{encoded(last)}", {"boost": 1.0})[0] == 200
        catalogue = Catalogue.open(data_dir)
        renamed = {**catalogue.items, hidden: Item(hidden, "Another name", "Odd")}
        Catalogue(renamed).save(data_dir)
        time.sleep(1)
        for running in (service, again):
            assert asked(running) == first
            assert "Another name" in str(running.get("/search?q=another")[1])
    pool.shutdown()


def test_groups_and_diversity_of_one_question(service):
    asked = {"user": "user 0", "n": 6}
    plain = service.post("/recommend", asked)[1]
    two = service.post("/recommend", asked | {"max_per_group": 2})[1]
    assert len(two["items"]) == 4
    assert Counter(int(item[2:]) % 2 for item in listed(two)) == {0: 2, 1: 2}
    other = service.post("/recommend", asked | {"diversity": 0.9})[1]
    assert listed(other)[0] == listed(plain)[0]
    assert listed(other) != listed(plain)
    for wrong in ({"diversity": 1.0}, {"diversity": -0.1}, {"max_per_group": -1}):
        assert service.post("/recommend", asked | wrong)[0] == 422


def test_what_was_shown_and_taken_is_counted(service, data_dir):
    lists = [service.get(f"/recommend/user%20{n}?n=4&track=1")[1] for n in range(70, 80)]
    tracked = service.post("/recommend", {"users": ["user 80", "user 81"], "n": 4, "track": True})[
        1
    ]
    shown = {"user": "user 82", "items": listed(lists[0]), "model": "another", "place": 5}
    assert service.post("/shown", shown)[1]["accepted"] == 4
    store = EventStore(load_settings(data_dir))
    wait_until(lambda: store.rows("SELECT count(*) FROM shown") == [(52,)], "what was shown")
    taken = [
        {"user": answer["user"], "item": answer["items"][0]["item"], "type": kind}
        for answer in [*lists[:6], tracked["lists"][0]]
        for kind in ("click", "click", "purchase")[: 2 if answer == lists[0] else 3]
    ]
    service.post("/events", taken)
    told = service.get("/shown")[1]
    assert told["trial"] is None
    found = {(rate["by"], rate["of"], rate["type"]): rate for rate in told["rates"]}
    assert [found["place", "1", kind]["taken"] for kind in ("click", "purchase")] == [7, 6]
    assert (found["place", "1", "click"]["shown"], found["place", "5", "click"]["taken"]) == (12, 0)
    by_version = found["version", lists[0]["model"], "click"]
    low, high = wilson(7, 48)
    assert (by_version["shown"], by_version["share"]) == (48, 7 / 48)
    assert (by_version["low"], by_version["high"]) == pytest.approx((low, high))
    assert low < 7 / 48 < high
    today = datetime.now(UTC).date().isoformat()
    metrics = service.get("/metrics")[1]
    line = f'mom_shown_taken{{bound="share",by="day",of="{today}",type="click"}} {7 / 52}'
    assert line in metrics


def test_workers_count_together(service):
    def asked() -> float:
        lines = service.get("/metrics")[1].splitlines()
        wanted = 'mom_requests_total{method="GET",route="/model",status="200"} '
        return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))

    before = asked()
    for _ in range(30):
        assert service.get("/model")[0] == 200
    assert asked() == before + 30
    assert len(workers_of(service)) == 2


def test_nothing_is_lost_when_workers_go_and_models_come(tmp_path, make):
    registry = ModelRegistry(tmp_path / "models")
    first, second = (registry.add(make(day)) for day in (1, 2))
    registry.promote(first, "a test")
    stop, failures, seen = threading.Event(), [], Counter()

    def load(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while not stop.is_set():
            try:
                connection.request("GET", "/recommend/user%2060")
                response = connection.getresponse()
                seen[json.loads(response.read())["model"]] += response.status == 200
            except Exception as error:
                failures.append(error)
                connection.close()

    with running_service(tmp_path, "--workers", "2") as service:
        threads = [threading.Thread(target=load, args=(service.port,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: seen[first] > 50, "the first model")
            registry.promote(second, "a test")
            wait_until(lambda: seen[second] > 50, "the second model")
            before = seen[first]
            wait_until(lambda: len(workers_of(service)) == 2, "the old workers to leave")
            assert seen[first] - before < 50
            assert not failures
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        gone = workers_of(service)[0]
        os.kill(gone, signal.SIGKILL)
        wait_until(lambda: len({*workers_of(service)} - {gone}) == 2, "another worker")
        assert {service.version() for _ in range(10)} == {second}
    assert service.process.returncode == 0


def test_a_trial_answers_its_share_always_the_same(tmp_path, make):
    registry = ModelRegistry(tmp_path / "models")
    first, second = (registry.add(make(day)) for day in (1, 2))
    registry.promote(first, "a test")
    with running_service(tmp_path, "--ab", f"{second}=30%") as service:
        answers = {n: service.get(f"/recommend/user%20{n}?track=1")[1]["model"] for n in range(200)}
        trial = registry.trial()
        assert trial is not None
        assert {n for n, model in answers.items() if model == second} == {
            n for n in range(200) if trial.has(f"user {n}")
        }
        assert 35 <= Counter(answers.values())[second] <= 85
        tried = next(n for n, model in answers.items() if model == second)
        why = service.get(f"/explain?user=user%20{tried}&item=2%2F5")[1]
        assert why["model"] == second
        told = {"user": f"user {tried}", "item": "1/5"}
        assert service.post("/events", told)[1]["accepted"] == 1
        result = service.get("/shown")[1]["trial"]["result"]
        assert result["control"]["users"] + result["trial"]["users"] == 200
        assert registry.remove_old(1) == []
        said = mom(tmp_path, "promote", second, "--if-better", error=NotShownBetter).stderr
        assert "is not shown to be better: difference" in said
    with running_service(tmp_path) as service:
        assert {service.get(f"/recommend/user%20{n}")[1]["model"] for n in range(50)} == {first}
    assert registry.trial() is None


def arm(n: Sequence[int], y: Sequence[int]) -> Arm:
    """Users who were shown n items each and took y of them."""
    shown, taken = np.array(n), np.array(y)
    products = (shown, taken, shown * shown, taken * taken, shown * taken)
    return Arm(len(shown), *(int(each.sum()) for each in products))


def test_the_interval_of_a_trial_covers_the_effect():
    """Users differ in how much they are shown and take; a tenth is in the trial."""
    rng, effect, covered, n_users = np.random.default_rng(0), 0.015, 0, 4_000
    for _ in range(100):
        shown = rng.geometric(0.05, n_users)
        rate, tried = rng.beta(1, 11.5, n_users) * 0.9, rng.random(n_users) < 0.1
        taken = rng.binomial(shown, rate + effect * tried)
        found = difference(arm(shown[~tried], taken[~tried]), arm(shown[tried], taken[tried]))
        covered += found.low <= effect <= found.high
    assert 90 <= covered <= 99
    few = difference(arm([9, 5], [1, 2]), arm([7, 3], [1, 2]))
    assert few.low < 0 < few.high
    assert few.more_users > 4
    assert difference(Arm(), Arm()).low is None


@pytest.mark.long
def test_the_interval_of_a_trial_covers_the_effect_on_the_sample(folder: DataFolder):
    """100 trials of the people of the sample, as the shop tells them.

    Everybody is shown lists as often as they came, and takes of an item with a chance of their own,
    to which the trial adds.
    """
    lines = b"".join(gzip.decompress(d.content) for d in sample_deliveries(SampleSettings()))
    visits = Counter(line.partition(b",")[0].decode() for line in lines.splitlines())
    people = [(user, min(n, 12)) for user, n in visits.most_common(1_000)]
    rng, store, effect, covered = np.random.default_rng(0), EventStore(folder.settings), 0.03, 0
    for run in range(100):
        trial, taken = Trial(f"version {run}", 0.3, "2024-01-01"), list[ShopEvent]()
        with store.writing() as connection:
            for user, n in people:
                tried = trial.has(user)
                items = [f"{run}/{place}" for place in range(n)]
                version = trial.version if tried else "in use"
                store.add_shown(connection, ShownList(user, items, version, trial.version))
                takes = rng.random(n) < rng.beta(2, 18) + effect * tried
                mine = (item for item, took in zip(items, takes, strict=True) if took)
                now = time.time()
                taken += [ShopEvent(user, y, now, "click", f"{y} {user}") for y in mine]
            assert store.add(connection, taken).accepted == len(taken)
        found = trial_difference(store, trial)
        assert found.control.users + found.trial.users == len(people)
        covered += found.low <= effect <= found.high
    print(f"covered in {covered} of 100")
    assert covered >= 90


@pytest.mark.parametrize("form", ["iso", "epoch_s", "epoch_us", "excel", "%d/%m/%Y %H:%M:%S"])
def test_a_closed_day_is_a_log_that_is_ingested(folder: DataFolder, form):
    logs = {"timestamp_format": form, "timezone": "Asia/Taipei", "require_checksum": True}
    folder.with_logs(**logs).with_columns(user="who", event="kind", timestamp="at", weight="n")
    folder.with_logs(event_weights=(("buy", 2.0), ("look", 0.0), ("return", -1.0)))
    store = EventStore(folder.settings)
    seconds = datetime.fromisoformat(f"{yesterday()}T01:02:03+00:00").timestamp()
    kinds = ("buy", "look", "return", "buy")
    of_yesterday(
        store,
        *(ShopEvent('a "b" ü', f"tea {n % 2}", seconds, k, str(n)) for n, k in enumerate(kinds)),
    )
    assert store.since('a "b" ü', "2024-01-01") == {"tea 0": 1.0, "tea 1": 2.0}
    [path] = store.close_days()
    assert store.close_days() == []
    result = folder.ingest(path.name)
    assert (result.rows_accepted, result.rows_rejected, result.rows_set_aside) == (3, 1, 1)
    assert folder.query(
        "SELECT user_id, item_id, weight::INTEGER, epoch(event_time)::BIGINT FROM raw_logs "
        "ORDER BY line"
    ) == [('a "b" ü', item, n, seconds) for item, n in (("tea 0", 2), ("tea 0", -1), ("tea 1", 2))]
    # A model that knows the day has these; one of an earlier day has not.
    assert store.since('a "b" ü', yesterday()) == {}
    assert store.since('a "b" ü', "2024-01-01") == {"tea 0": 1.0, "tea 1": 2.0}


def test_an_erasure_covers_events_and_what_was_shown(folder: DataFolder):
    user, store = "needle-4711", EventStore(folder.settings)
    folder.take("user,item,timestamp\nann,tea,2024-03-01T10:00:00\n")
    with store.writing() as connection:
        store.add_shown(connection, ShownList(user, ["tea", "jam"], "a version"))
        events = [ShopEvent(one, "tea", time.time(), "purchase", one) for one in (user, "ann")]
        assert store.add(connection, events).accepted == 2
    assert files_with(folder.settings.data_dir, [user])
    receipt = erase(folder, user)
    assert (receipt.removed["events"], receipt.removed["shown"]) == (1, 2)
    assert files_with(folder.settings.data_dir, [user]) == []
    again = ShopEvent(user, "tea", time.time(), "purchase", "later")
    with store.writing() as connection:
        counted = store.add(connection, [again])
    assert (counted.accepted, counted.erased) == (0, 1)
    assert store.rows("SELECT user FROM events") == [("ann",)]


def test_a_token_by_name_holds_until_it_is_withdrawn(tmp_path, make):
    in_use(tmp_path, make(1))
    token, other = (mom(tmp_path, "token", name).stdout.strip() for name in ("shop", "press"))
    assert mom(tmp_path, "token").stdout.split() == ["press", "shop"]
    assert token not in (tmp_path / "shop" / "tokens.json").read_text()
    proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
    with running_service(tmp_path, "--proxy", "192.0.2.1") as service:
        held = {"Authorization": f"Bearer {token}"}
        for path, status in (("/health", 200), ("/ready", 200), ("/metrics", 401), ("/", 401)):
            assert service.get(path)[0] == status
        assert service.get("/model", **held)[0] == 200
        refused = service.get("/model", **held, Origin="https://other.example")
        assert (refused[0], "--cors-origin" in refused[1]) == (403, True)
        # Not the proxy that is named: what it says of the scheme is not believed.
        own = {"Origin": f"https://127.0.0.1:{service.port}"}
        assert service.get("/model", **held, **proxied, **own)[0] == 403
        mom(tmp_path, "token", "shop", "--withdraw")
        assert service.get("/model", **held)[0] == 401
        assert service.get("/model", Authorization=f"Bearer {other}")[0] == 200
    with running_service(tmp_path, "--proxy", "127.0.0.1", "--open-metrics") as service:
        own = {"Origin": f"https://127.0.0.1:{service.port}"}
        press = {"Authorization": f"Bearer {other}"}
        assert service.get("/model", **press, **proxied, **own)[0] == 200
        assert service.get("/metrics")[0] == 200


def test_what_would_never_work_is_refused_at_the_start(tmp_path, make):
    version = in_use(tmp_path, make(1)).champion_version()
    for origin in ("shop.example", "https://shop.example/"):
        said = mom(tmp_path, "serve", "--cors-origin", origin, code=2).stderr
        assert "such as https://shop.example" in said
    assert "is the model in use" in mom(tmp_path, "serve", "--ab", f"{version}=10%", code=2).stderr
    assert ModelRegistry(tmp_path / "models").trial() is None


def test_a_unit_for_systemd(tmp_path):
    said = mom(tmp_path, "serve", "--workers", "2", "--open-metrics", "--ab", "V=10%", "--systemd")
    assert "serve --workers 2 --open-metrics --ab V=10%%\n" in said.stdout
    assert f"Environment=MOM_DATA_DIR={tmp_path}\n" in said.stdout


class Teller:
    """A shop that tells each event twice, and remembers what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self._lock, self._n = threading.Lock(), 0

    def ids(self) -> list[str]:
        with self._lock:
            self._n += 3
            return [f"id {self._n - k}" for k in range(3)]

    def tell(self, port: int, stop: threading.Event) -> None:
        while not stop.is_set():
            connection, ids = http.client.HTTPConnection("127.0.0.1", port, timeout=5), self.ids()
            told = json.dumps([event(7, id=own) for own in ids])
            try:
                for _ in range(2):
                    connection.request("POST", "/events", told, JSON)
                    response = connection.getresponse()
                    response.read()
                    if response.status == 200:
                        with self._lock:
                            self.acknowledged.update(ids)
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)


def kill_service(folder: Path, teller: Teller, seconds: float) -> None:
    """Start the service, and kill all of it while four shops tell it events."""
    output = folder / "killed.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            command("serve", "--port", "0", "--workers", "2"),
            stdout=log,
            stderr=log,
            env=environment(folder),
            start_new_session=True,
        )
    stop = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        try:
            wait_until(lambda: "Open http" in output.read_text(), "an address")
            port = int(output.read_text().partition("127.0.0.1:")[2].split()[0])
            for _ in range(4):
                pool.submit(teller.tell, port, stop)
            time.sleep(seconds)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            stop.set()


def killed_often(folder: Path, n_kills: int, seed: int) -> tuple[int, list[str]]:
    """Kill the service and then what writes a day's log; return the events, and what failed."""
    rng, teller, failures = random.Random(seed), Teller(), list[str]()
    settings = load_settings(folder, {})
    for _ in range(n_kills):
        kill_service(folder, teller, rng.uniform(0.5, 1.5))
        stored = {own for (own,) in EventStore(settings).rows("SELECT id FROM events")}
        if lost := teller.acknowledged - stored:
            failures.append(f"{len(lost)} lost")
    store = EventStore(settings)
    with store.writing() as connection:
        connection.execute("UPDATE events SET day = ?", (yesterday(),))
        many = (ShopEvent("many", "1/5", 0.0, "purchase", f"more {n}") for n in range(200_000))
        rows = ((e.id, yesterday(), e.time, e.user, e.item, e.type) for e in many)
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)
    [[n]] = store.rows("SELECT count(*) FROM events")
    path = settings.logs_dir / f"{yesterday()}-service.jsonl"
    code = "from mom_pipeline.serving.events import *; import time; from mom_pipeline.settings "
    code += "import load_settings; print(flush=True); EventStore(load_settings()).close_days()"
    for _ in range(n_kills):
        with subprocess.Popen(
            [sys.executable, "-c", code], env=environment(folder), stdout=subprocess.PIPE
        ) as closing:
            closing.stdout.readline()
            time.sleep(rng.uniform(0.0, 1.0))
            closing.kill()
        if path.exists() and path.read_bytes().count(b"\n") != n:
            failures.append("the log is not whole")
    store.close_days()
    if path.read_bytes().count(b"\n") != n:
        failures.append("lost or doubled in the log")
    return len(teller.acknowledged), failures


def test_no_kill_loses_or_doubles_an_event(tmp_path, make):
    in_use(tmp_path, make(1))
    acknowledged, failures = killed_often(tmp_path, 3, seed=0)
    assert acknowledged > 30
    assert failures == []


@pytest.mark.long
def test_200_kills_lose_and_double_nothing(tmp_path, make):
    in_use(tmp_path, make(1))
    acknowledged, failures = killed_often(tmp_path, 200, seed=1)
    print(f"{acknowledged:,} acknowledged, {failures or 'nothing lost or doubled'}")
    assert failures == []
