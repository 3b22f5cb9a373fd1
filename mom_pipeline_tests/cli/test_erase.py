"""`mom-pipeline erase` as typed, on a finished folder: real DuckDB file, real Dagster history."""

import csv
import gzip
import io
import json
import os
import shutil
import signal
import zipfile
from collections.abc import Collection
from datetime import date
from pathlib import Path

import duckdb
import pytest

from mom_pipeline.artifacts.lock import _held, writing_to
from mom_pipeline.cli.erase import _left
from mom_pipeline.cli.run import ingest_new
from mom_pipeline.core.groups.support import SupportCurve
from mom_pipeline.erasure.erasing import NobodyToErase
from mom_pipeline.groups.names import NamedGroup, keep_groups, kept_groups
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.erased import ErasuresNotWhole, signature
from mom_pipeline_tests.cli.conftest import SETTINGS_FILE, mom, rows, statuses
from mom_pipeline_tests.faults.every_list import lists_of
from mom_pipeline_tests.running import wait_until
from mom_pipeline_tests.serving.service import encoded, running_service, workers_of

# Distinctive, so that its bytes can be searched for, and hard to write: quotes and no ASCII.
USER = 'needle-Ω "4711"'
N_DAYS, LAST = 4, date(2024, 3, 4)
SETTINGS = SETTINGS_FILE.replace('"components"', '"three-moment"').replace(
    "_days = 0", "_days = 28"
)
SAMPLE = SampleSettings(
    n_days=N_DAYS, n_users=200, n_items=50, n_components=3, events_per_day=700, seed=4
)


def write_logs(folder: Path, *, with_user: bool, without: Collection[str] = ()) -> None:
    """The sample, in which the first of its users is called USER; or the same without some."""
    (folder / "logs").mkdir(parents=True)
    (folder / "pipeline.toml").write_text(SETTINGS)
    deliveries = list(sample_deliveries(SAMPLE))
    first = deliveries[0].content
    name = gzip.decompress(first).decode().splitlines()[1].split(",")[0]
    for delivery in deliveries:
        out, lines = (
            io.StringIO(),
            gzip.decompress(delivery.content).decode().splitlines(keepends=True),
        )
        left = (line for line in lines if line.split(",")[0].strip() not in without)
        for row in csv.reader(left):
            if row[0] != name:
                csv.writer(out, lineterminator="\n").writerow(row)
            elif with_user:
                csv.writer(out, lineterminator="\n").writerow([USER, *row[1:]])
        content = gzip.compress(out.getvalue().encode(), mtime=0)
        (folder / "logs" / delivery.name).write_bytes(content)


def holding(folder: Path) -> set[str]:
    """Files with the bytes of the id as they are or decompressed: written apart from the code."""
    plain, escaped = USER.encode(), json.dumps(USER)[1:-1].encode()
    wanted = [
        plain,
        escaped,
        USER.replace('"', '""').encode(),
        b"needle-",
        USER.encode("utf-32-le"),
    ]
    found = set()
    for path in (p for p in folder.rglob("*") if p.is_file()):
        contents = [path.read_bytes()]
        if path.suffix == ".gz":
            contents.append(gzip.decompress(contents[0]))
        elif path.suffix == ".npz":
            archive = zipfile.ZipFile(path)
            contents += [archive.read(name) for name in archive.namelist()]
        elif path.suffix == ".parquet":
            contents.append(repr(duckdb.sql(f"FROM '{path}'").fetchall()).encode())
        elif path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as connection:
                for (table,) in connection.execute("SHOW TABLES").fetchall():
                    rows = connection.execute(f"FROM {table}").fetchall()
                    contents.append(repr(rows).encode())
        if any(text in content for text in wanted for content in contents):
            found.add(str(path.relative_to(folder)).split("/")[0])
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "data"
    write_logs(folder, with_user=True)
    mom(folder, "update")
    return folder


@pytest.fixture(scope="module")
def erased(finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("erased") / "data"
    shutil.copytree(finished, folder)
    return folder, mom(folder, "erase", USER, "--yes", "--json").json


def test_the_id_is_found_in_every_place_before_and_nowhere_after(finished, erased):
    folder, receipt = erased
    before = holding(finished)
    assert before >= {"logs", "warehouse.duckdb", "exports", "models"}
    assert "dagster_home" not in before  # nothing that Dagster keeps names a user
    assert holding(folder) == set()
    assert receipt["left_in"] == []
    assert receipt["removed"]["files of arrays"] > 3
    assert receipt["removed"]["models"] >= 1
    assert receipt["finished"]
    assert set(statuses(folder).values()) == {"fresh"}
    assert not list(folder.rglob("*.wal"))


def in_full(folder, **without):
    """A new folder whose newest day is computed in full."""
    write_logs(folder, **without)
    mom(folder, "backfill", "--from", str(LAST), "--to", str(LAST), "--full")
    return folder


def champion(folder):
    return ModelRegistry(folder / "models").champion()


def test_every_list_and_membership_is_that_of_a_full_fit_without_her(erased, finished, tmp_path):
    """Weights of the choice fitted without her, too; components up to their numbers."""
    folder, receipt = erased
    clean = in_full(tmp_path / "clean", with_user=False)
    assert champion(folder).content_hash == champion(clean).content_hash
    assert champion(folder).content_hash == receipt["after"]["content"]
    assert champion(finished).content_hash == receipt["before"]["content"]
    weights = champion(folder).model.pair_ranking.weights
    assert weights != champion(finished).model.pair_ranking.weights
    assert len(lists_of(clean, LAST)) > 100
    assert lists_of(folder, LAST) == lists_of(clean, LAST)
    lists = "SELECT user_id, rank, item_id, score FROM recommendations ORDER BY ALL"
    assert rows(folder, lists) == rows(clean, lists)
    for kind in ("user", "item"):
        assert rows(folder, f"FROM {kind}_dictionary ORDER BY 1") == rows(
            clean, f"FROM {kind}_dictionary ORDER BY 1"
        )
    assert ModelRegistry(folder / "models").names() == [receipt["after"]["version"]]


def test_groups_that_no_model_has_are_forgotten_and_the_others_keep_their_names(finished, tmp_path):
    folder = Path(shutil.copytree(finished, tmp_path / "data"))
    settings = load_settings(folder, {})
    old = mom(folder, "groups", "--json").json["groups"][0]["name"]
    mom(folder, "groups", "rename", old, "Night owls")
    kept = kept_groups(settings)
    gone = NamedGroup("Long ago", "person", {"of nobody": 0.5})
    keep_groups(settings, [gone])  # a model that had this group alone
    keep_groups(settings, kept.names, SupportCurve((1, 2, 4, 10**6), (1, 2, 3, 4), 64))
    assert "Long ago" in {each.name for each in kept_groups(settings).names}
    receipt = mom(folder, "erase", USER, "--yes", "--json").json
    assert receipt["removed"]["names of groups that are no more"] >= 1
    now = kept_groups(settings)
    assert "Long ago" not in {each.name for each in now.names}
    assert "Night owls" in {each.name for each in now.names}
    assert "of nobody" not in (folder / "shop" / "groups.json").read_text()
    assert now.present == len(now.names) == len(champion(folder).model.weights)
    assert now.support is not None
    assert now.support.users[-1] < 10**6


def test_a_damaged_file_of_groups_stops_no_erasure(finished, tmp_path):
    folder = Path(shutil.copytree(finished, tmp_path / "data"))
    (folder / "shop" / "groups.json").write_text('{"names": [{"profile": "' + json.dumps(USER)[1:])
    assert mom(folder, "erase", USER, "--yes", "--json").json["left_in"] == []
    assert len(kept_groups(load_settings(folder, {})).names) == 3


def test_many_at_once_are_as_if_they_had_never_been(finished, tmp_path):
    folder = Path(shutil.copytree(finished, tmp_path / "data"))
    users = [user for (user,) in rows(folder, "SELECT user_id FROM user_dictionary ORDER BY 1")]
    gone = users[::4]
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join([*gone, gone[0], "nobody-1", "nobody-2", ""]))
    said = mom(folder, "erase", "--file", str(ids), "--yes")
    assert "1 ids stand in ids.txt more than once" in said.stderr
    assert "2 ids are not there, and are skipped: 'nobody-1', 'nobody-2'" in said.stderr
    assert "What stays" in said.stdout
    clean = in_full(tmp_path / "clean", with_user=USER not in gone, without=gone)
    assert champion(folder).content_hash == champion(clean).content_hash
    assert set(champion(folder).user_ids) == set(users) - set(gone)
    assert set(statuses(folder).values()) == {"fresh"}
    (receipt,) = (folder / "erasures").glob("*.json")
    assert len(json.loads(receipt.read_text())["users"]) == len(gone)
    assert not any(user in receipt.read_text() for user in gone)


def test_the_number_of_the_process_that_erases_is_nobodys_id(shop):
    """It stands in the lock; of 5,000 people with short numbers one had it."""
    settings = load_settings(shop)
    registry = ModelRegistry(settings.models_dir)
    with writing_to(settings, "somebody 4711-4711"):
        assert _left(settings, registry, ["4711-4711"]) == []
    (shop / "other").write_text("4711-4711")
    assert _left(settings, registry, ["4711-4711"]) == ["other"]


def test_a_person_may_come_again_if_the_operator_says_so(erased, tmp_path):
    folder = Path(shutil.copytree(erased[0], tmp_path / "data"))
    line = 'user,item,timestamp\n"{}",jazz-001,{}T10:00:00\n'
    id_ = USER.replace('"', '""')

    def deliver(day):
        (folder / "logs" / f"{day}.csv").write_text(line.format(id_, day))
        ingest_new(load_settings(folder, {}))
        return rows(folder, f"SELECT count(*) FROM raw_logs WHERE delivery_day = '{day}'")

    assert deliver("2024-03-05") == [(0,)]
    mom(folder, "erase", "nobody", "--readmit", error=NobodyToErase)
    assert "from now on" in mom(folder, "erase", USER, "--readmit").stdout
    assert deliver("2024-03-06") == [(1,)]
    assert mom(folder, "erase", USER, "--yes", "--json").json["removed"]["log lines"] >= 1
    assert deliver("2024-03-07") == [(0,)]


def test_the_same_person_twice_is_said_and_changes_nothing(erased):
    folder, receipt = erased
    before = champion(folder).content_hash, (folder / "logs").stat().st_mtime_ns
    said = mom(folder, "erase", USER, "--yes").stdout
    assert said.startswith(f"Erased before, {receipt['finished']}; nothing of it is left.")
    assert before == (champion(folder).content_hash, (folder / "logs").stat().st_mtime_ns)


def test_a_receipt_is_checked_by_the_key_and_by_computing_again(erased, tmp_path):
    folder = Path(shutil.copytree(erased[0], tmp_path / "data"))
    (receipt,) = (folder / "erasures").glob("*.json")
    assert "is the one of the receipt" in mom(folder, "erase", "--verify", str(receipt)).stdout
    values = json.loads(receipt.read_text())
    values["after"]["content"] = values["before"]["content"]
    salt = (folder / "erasures" / "salt").read_text().strip()
    values["hmac"] = signature(values, salt)  # by somebody who has the key
    other = tmp_path / "other.json"
    other.write_text(json.dumps(values))
    assert "is another one" in mom(folder, "erase", "--verify", str(other), code=1).stdout
    values["removed"]["log lines"] += 1
    other.write_text(json.dumps(values))
    mom(folder, "erase", "--verify", str(other), error=ErasuresNotWhole)
    for content in (b"[" * 9_000, b"\x89PNG" * 9_000):
        other.write_bytes(content)
        said = mom(folder, "erase", "--verify", str(other), error=ErasuresNotWhole).stderr
        assert len(said) < 400
        assert "no log file is ingested" not in said  # it is a copy
    (folder / "logs" / "2024-03-02-late.csv").write_text(
        "user,item,timestamp\nann,jazz-001,2024-03-02T10:00:00\n"
    )
    mom(folder, "update")
    assert "have changed since" in mom(folder, "erase", "--verify", str(receipt)).stdout


@pytest.mark.parametrize("salt", [None, b"another\n", b"\xff\xfe", "folder gone"])
def test_a_lost_or_changed_key_stops_ingest_and_is_seen(erased, tmp_path, salt):
    folder = Path(shutil.copytree(erased[0], tmp_path / "data"))
    path = folder / "erasures" / "salt"
    if isinstance(salt, bytes):
        path.write_bytes(salt)
    else:
        shutil.rmtree(path.parent) if salt else path.unlink()
    for log in (folder / "logs").iterdir():
        log.touch()
    (folder / "logs" / "2024-03-04-late.csv").write_text(
        'user,item,timestamp\n"' + USER.replace('"', '""') + '",jazz-001,2024-03-04T10:00:00\n'
    )
    assert "put erasures/ back from a copy" in mom(folder, "update", code=1).stderr
    assert mom(folder, "erase", "ben-00002", "--yes", error=ErasuresNotWhole)
    damaged = mom(folder, "status", "--verify", "--json", code=1).json["damaged"]
    assert [entry["where"].split("/")[0] for entry in damaged] == ["erasures"]
    shutil.copytree(erased[0] / "erasures", path.parent, dirs_exist_ok=True)
    ingest_new(load_settings(folder, {}))
    assert holding(folder) == {"logs"}
    assert rows(folder, "SELECT count(*) FROM quarantine WHERE reason LIKE '%erased%'") == [(1,)]


def test_workers_answer_nothing_of_her_once_the_command_returns(finished, tmp_path):
    """Not where what loads models hangs either."""
    folder = Path(shutil.copytree(finished, tmp_path / "data"))
    paths = [f"/{what}{encoded(USER)}" for what in ("recommend/", "history?user=", "search?q=")]
    with running_service(folder, "--workers", "2") as service:
        told = {"user": USER, "item": lists_of(folder, LAST)[USER][0][0]}
        assert service.post("/events", told)[1]["accepted"] == 1

        def answers():
            return [service.get(path) for path in 4 * paths]

        assert all(status == 200 and not answer.get("fallback") for status, answer in answers())
        os.kill(service.process.pid, signal.SIGSTOP)
        try:
            mom(folder, "erase", USER, "--yes")
            assert {status for status, _ in answers()} == {503}
            assert service.post("/events", told)[1]["erased"] == 1
        finally:
            os.kill(service.process.pid, signal.SIGCONT)
        without = champion(folder).manifest.version
        wait_until(lambda: {service.version() for _ in range(9)} == {without}, "the new model")
        wait_until(lambda: len(workers_of(service)) == 2, "the old workers to leave")
        assert service.get(paths[0])[1]["fallback"]
        assert [service.get(path)[0] for path in paths] == [200, 404, 200]
    assert "shop" not in holding(folder)


def test_figures_of_past_days_stay(erased, finished):
    metrics = "SELECT DISTINCT day, model_day, ranking FROM evaluation_metrics ORDER BY ALL"
    assert rows(erased[0], metrics) == rows(finished, metrics) != []


def test_bad_input_gets_an_answer_and_changes_nothing(finished, tmp_path):
    folder = Path(shutil.copytree(finished, tmp_path / "data"))
    for user in ("", "=HYPERLINK(1)", "nobody\n"):
        assert mom(folder, "erase", user, "--yes", code=1).stderr
    with writing_to(load_settings(folder, {}), "another erasure"):
        held = _held.copy()
        _held.clear()  # as in another process
        assert "another erasure" in mom(folder, "erase", USER, "--yes", code=1).stderr
        _held.update(held)
    assert "nobody answered" in mom(folder, "erase", USER, code=1).stderr  # without a terminal
    asked = mom(folder, "erase", USER, code=1, typed="n\n")
    assert "lines in 4 log files" in asked.stdout
    assert not (folder / "erasures").exists()
    for path in (finished / "logs").iterdir():
        assert (folder / "logs" / path.name).read_bytes() == path.read_bytes()
