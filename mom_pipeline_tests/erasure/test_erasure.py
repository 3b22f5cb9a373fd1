"""Erasure from files and tables; ids that are hard to write, and interruptions."""

import gzip
import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pytest

from mom_pipeline.cli.status import checks
from mom_pipeline.core.files import replacing
from mom_pipeline.erasure import tables
from mom_pipeline.erasure.erasing import (
    NobodyToErase,
    find_users,
    storage_steps,
    take_steps,
)
from mom_pipeline.erasure.receipts import Receipt, begin_receipt, now
from mom_pipeline.erasure.search import files_with, wanted_users
from mom_pipeline.erasure.tables import parts_of_others
from mom_pipeline.errors import WarehouseBusy
from mom_pipeline.logs.gate import admit
from mom_pipeline.logs.ingest import pending_files
from mom_pipeline.logs.ledger import ledger_entries
from mom_pipeline.pipeline.days import LOGS, Days
from mom_pipeline.warehouse.erased import erased_users
from mom_pipeline.warehouse.matrix import extend_dictionaries, logs_fingerprints, matrix_as_of
from mom_pipeline_tests.data_folder import HEADER, DataFolder

# Long enough to be found in bytes; a short one, such as 7, is a part of everything.
USER = "needle-4711"
OTHERS = [("ann", "tea", "2024-03-01T10:00:00"), ("bob", "jam", "2024-03-01T11:00:00")]
HARD_IDS = [
    USER,
    '=HYPERLINK("http://x.example";"Click")',
    "o'brien; DROP TABLE raw_logs",
    'say "hello", world',
    "żółw-Ωmega",
    "100%_sure\\n",
    "<b>needle</b>&amp;",
]


def csv_field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def csv_lines(user: str) -> str:
    own = f"{csv_field(user)},tea,2024-03-01T12:00:00\n"
    lines = [",".join(row) + "\n" for row in OTHERS]
    return HEADER + lines[0] + own + lines[1] + own


NOT_AGAIN = date(2024, 4, 1)


def erase(folder: DataFolder, *users: str) -> Receipt:
    traces = find_users(folder.settings, users)
    receipt = begin_receipt(folder.warehouse, traces.user_ids)
    steps = storage_steps(folder.settings, traces, NOT_AGAIN)
    receipt = take_steps(folder.settings, receipt, steps, lambda name: None)
    return replace(receipt, finished=now()).save(folder.settings)


def left(folder: DataFolder, *users: str) -> list[str]:
    return files_with(folder.settings.data_dir, users)


def is_part_of_others(connection: duckdb.DuckDBPyConnection, user: str) -> bool:
    with wanted_users(connection, [user]):
        return user in parts_of_others(connection)


def test_the_state_is_that_of_files_without_the_users(
    lenient: DataFolder, new_folder: Callable[[str], DataFolder]
):
    others = "".join(",".join(row) + "\n" for row in OTHERS)
    bad = "".join(f"{csv_field(user)},tea,not a time\n{csv_field(user)},tea\n" for user in HARD_IDS)
    good = "".join(f"{csv_field(user)},tea,2024-03-01T12:00:00\n" for user in HARD_IDS)
    lenient.take(HEADER + good + others + bad + "x,y\n" + good)
    other = json.dumps({"user": "ann", "item": "jam", "timestamp": "2024-03-02T12:00:00"}) + "\n"
    rows = [{"user": u, "item": "tea", "timestamp": "2024-03-02T12:00:00"} for u in HARD_IDS]
    lenient.take("".join(json.dumps(row) + "\n" for row in rows) + other, "2024-03-02.jsonl")
    for user in HARD_IDS:
        assert left(lenient, user)
        erase(lenient, user)
        assert left(lenient, user) == []
    clean = new_folder("clean").with_logs(max_reject_share=1.0)
    clean.take(HEADER + others + "x,y\n")
    clean.take(other, "2024-03-02.jsonl")
    assert lenient.tables() == clean.tables()
    assert pending_files(lenient.warehouse) == []


def test_compressed_tables_and_checksums(folder: DataFolder):
    text = csv_lines(USER).encode()
    folder.take(gzip.compress(text), "2024-03-01.csv.gz")
    tsv = text.decode().replace(",", "\t").replace('"', "").encode()
    beside = folder.write(
        "2024-03-02.tsv.sha256", hashlib.sha256(tsv).hexdigest() + "  2024-03-02.tsv\n"
    )
    folder.take(tsv, "2024-03-02.tsv")
    parquet = folder.settings.logs_dir / "2024-03-03.parquet"
    source = folder.write("_source.csv", text)
    duckdb.sql(f"COPY (SELECT *, 1 AS extra FROM '{source}') TO '{parquet}'")
    source.unlink()
    folder.ingest("2024-03-03.parquet")

    receipt = erase(folder, USER)
    assert receipt.removed["log files"] == 3
    assert receipt.removed["log lines"] == 6
    assert folder.query(
        "SELECT delivery_day::VARCHAR, count(*) FROM raw_logs GROUP BY 1 ORDER BY 1"
    ) == [(f"2024-03-0{n}", 2) for n in (1, 2, 3)]
    assert duckdb.sql(f"FROM '{parquet}'").columns == ["user", "item", "timestamp", "extra"]
    tsv_file = folder.settings.logs_dir / "2024-03-02.tsv"
    assert beside.read_text().split()[0] == hashlib.sha256(tsv_file.read_bytes()).hexdigest()
    assert left(folder, USER) == []
    assert pending_files(folder.warehouse) == []


def test_a_delivery_does_not_bring_a_user_back(lenient: DataFolder):
    lenient.take(csv_lines(USER))
    erase(lenient, USER)
    result = lenient.take(csv_lines(USER) + f"{USER},tea\n", "2024-03-01.csv")
    assert result.reject_reasons == {"set aside: erased": 3}
    assert result.rows_set_aside == 3
    assert lenient.ids() == [("ann", "tea"), ("bob", "jam")]
    assert left(lenient, USER) == ["logs/2024-03-01.csv"]
    # Also when the warehouse is made anew from the files.
    lenient.settings.warehouse_path.unlink()
    lenient.ingest("2024-03-01.csv")
    assert lenient.ids() == [("ann", "tea"), ("bob", "jam")]
    erase(lenient, USER)
    assert left(lenient, USER) == []
    assert lenient.reasons() == []


def test_rows_of_a_file_that_is_gone(folder: DataFolder):
    folder.take(csv_lines(USER))
    (folder.settings.logs_dir / "2024-03-01.csv").unlink()
    erase(folder, USER)
    with folder.warehouse.connect() as connection:
        [entry] = ledger_entries(connection)
    assert (entry.lines, entry.rows_accepted) == (3, 2)
    assert folder.ids() == [("ann", "tea"), ("bob", "jam")]
    assert left(folder, USER) == []


def test_a_file_that_was_not_ingested_yet(folder: DataFolder):
    folder.take(csv_lines("carl"))
    folder.write("2024-03-02.csv", csv_lines(USER))
    erase(folder, USER)
    assert left(folder, USER) == []
    assert [file.source_file for file in pending_files(folder.warehouse)] == ["2024-03-02.csv"]
    assert folder.ingest("2024-03-02.csv").rows_accepted == 2


def test_the_receipt_says_what_and_not_who(folder: DataFolder):
    folder.take(csv_lines(USER))
    receipt = erase(folder, USER)
    text = (folder.settings.erasures_dir / f"{receipt.name}.json").read_text()
    assert USER not in text
    assert json.loads(text)["removed"]["log lines"] == 2
    assert receipt.finished >= receipt.begun
    assert USER in erased_users(folder.warehouse)
    assert "ann" not in erased_users(folder.warehouse)
    assert hashlib.sha256(USER.encode()).hexdigest() != receipt.name


def test_nobody_of_that_id(folder: DataFolder):
    folder.take(csv_lines(USER))
    before = folder.tables()
    for user in ("nobody-4711", "", "  ", "needle\n4711", "NEEDLE-4711"):
        with pytest.raises(NobodyToErase):
            erase(folder, user)
    assert folder.tables() == before
    assert not folder.settings.erasures_dir.exists()


def test_days_that_were_admitted_stay_so_without_most_of_their_people(folder: DataFolder):
    days, settings = [date(2024, 3, n) for n in range(1, 13)], folder.settings
    for day in days:
        rows = (f"user-{n:04},tea-{n % 7},{day}T{n % 24:02}:00:00\n" for n in range(240))
        folder.take(HEADER + "".join(rows), f"{day}.csv")
        with folder.warehouse.connect() as connection:
            assert admit(connection, day, None).admitted
    gone = [f"user-{n:04}" for n in range(200)]
    traces, receipt = find_users(settings, gone), begin_receipt(folder.warehouse, gone)
    take_steps(settings, receipt, storage_steps(settings, traces, days[-1]), lambda name: None)
    with folder.warehouse.connect() as connection:
        last, before = (admit(connection, day, None) for day in (days[-1], days[-2]))
    assert (last.admitted, before.admitted) == (True, False)
    assert "part of the file may be missing" in last.reasons[0]


@pytest.mark.parametrize("stopped_after", [0, 1, 2, 4, 10])
def test_interrupted_after_any_step_it_is_completed_later(stopped_after: int, folder: DataFolder):
    folder.take(csv_lines(USER))
    traces = find_users(folder.settings, [USER])
    receipt = begin_receipt(folder.warehouse, [USER])
    steps = list(storage_steps(folder.settings, traces, NOT_AGAIN))
    assert len(steps) == 10
    take_steps(folder.settings, receipt, iter(steps[:stopped_after]), lambda name: None)
    (stored,) = folder.settings.erasures_dir.glob("*.json")
    assert json.loads(stored.read_text())["finished"] == ""
    assert [c.where for c in checks(folder.settings) if c.problem] == [f"erasures/{stored.name}"]
    receipt = erase(folder, USER)
    assert json.loads(stored.read_text())["finished"] == receipt.finished != ""
    assert receipt.removed["log lines"] == 2
    assert folder.ids() == [("ann", "tea"), ("bob", "jam")]
    assert left(folder, USER) == []
    assert pending_files(folder.warehouse) == []


def test_stopped_between_the_file_and_its_rows(folder: DataFolder):
    folder.take(csv_lines(USER))
    begin_receipt(folder.warehouse, [USER])
    folder.write("2024-03-01.csv", HEADER + "".join(",".join(row) + "\n" for row in OTHERS))
    erase(folder, USER)
    assert folder.ids() == [("ann", "tea"), ("bob", "jam")]
    assert left(folder, USER) == []
    assert pending_files(folder.warehouse) == []


def test_a_warehouse_in_use_is_named_and_nothing_is_lost(folder: DataFolder):
    folder.take(csv_lines(USER))
    before = folder.tables()
    warehouse = replace(folder.settings.warehouse, lock_wait_seconds=0.1)
    quick = folder.settings.model_copy(update={"warehouse": warehouse})
    held = duckdb.connect(folder.warehouse.path, read_only=True)
    with held, pytest.raises(WarehouseBusy, match=f"PID {os.getpid()}"):
        find_users(quick, [USER])
    assert folder.tables() == before
    assert not folder.settings.erasures_dir.exists()


def test_a_short_id_takes_no_other_with_it(lenient: DataFolder):
    rows = ["7,tea", "17,7", "77,tea"]
    lines = "".join(f"{row},2024-03-07T07:07:07\n" for row in rows)
    lenient.take(f"{HEADER}{lines}17,x\n", "2024-03-07.csv")
    erase(lenient, "7")
    assert lenient.ids() == [("17", "7"), ("77", "tea")]
    assert lenient.reasons() == [(4, "expected 3 fields, found 2")]


def test_an_id_that_begins_another_takes_nothing_of_it(lenient: DataFolder):
    longer = f"{USER}2"
    bad = f"{longer},malformed\nx {longer}\n"
    lenient.take(csv_lines(USER) + f"{longer},tea,2024-03-01T12:00:00\n" + bad)
    erase(lenient, USER)
    assert lenient.ids() == [("ann", "tea"), ("bob", "jam"), (longer, "tea")]
    assert len(lenient.reasons()) == 2
    with lenient.warehouse.connect() as connection:
        extend_dictionaries(connection, date(2024, 3, 1))
        assert is_part_of_others(connection, USER)
        assert not is_part_of_others(connection, longer)


def test_pages_with_users_and_what_killed_processes_left(folder: DataFolder):
    folder.take(csv_lines(USER))
    data, ended = folder.settings.data_dir, subprocess.Popen(["true"])
    ended.wait()
    gone = [
        "reports/2024-03-01.html",
        "comparisons/2024-03-01/comparison.json",
        "comparisons/2024-03-01/per-user-1.npz",
        f"exports/.x.parquet.0123abcd.{ended.pid}.tmp",
        f"artifacts/anchor/.2024-03-01.npz.0123abcd.{ended.pid}.tmp",
        f"tmp/ingest-{ended.pid}/1.lines",
    ]
    for name in [*gone, "comparisons/split/comparison.json"]:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        day = "" if "split" in name else USER
        (data / name).write_text(json.dumps({"comparison": {"day": day}}))
    folder.query(
        "INSERT INTO runs VALUES ('r', '2024-03-01', '2024-03-01', now(), now(), "
        f"'raw_logs failed: {USER} did')"
    )
    erase(folder, USER)
    assert [name for name in gone if (data / name).exists()] == []
    assert (data / "comparisons" / "split" / "comparison.json").exists()
    assert left(folder, USER) == []


def test_an_id_of_digits_is_no_part_of_a_number_or_a_hash(tmp_path: Path):
    """Customers of Online Retail have five digits; scores and checksums have them too."""
    (tmp_path / "numbers.json").write_text('{"a": 0.0017850, "b": 117850.2, "c": "f17850ab"}')
    (tmp_path / "9f17850c").mkdir()
    assert files_with(tmp_path, ["17850"]) == []
    (tmp_path / "log.csv").write_text("user,item\n17850,tea\n")
    np.savez(tmp_path / "people.npz", ids=np.frombuffer(b"123417850432", dtype=np.uint8))
    assert files_with(tmp_path, ["17850"]) == ["log.csv"]


def test_of_many_short_numbers_chance_finds_some_in_any_binary_file(tmp_path: Path):
    ids = [str(number) for number in range(10_000, 15_000)]
    (tmp_path / "random.db").write_bytes(b"".join(f"\x01{n}\x02".encode() for n in ids))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"user,item\n10017,tea\n"))
    assert files_with(tmp_path, ids) == ["b.csv.gz"]
    assert files_with(tmp_path, ids[:1]) == ["random.db"]
    long = [f"user-{number}" for number in ids]
    assert files_with(tmp_path, long) == []
    (tmp_path / "c.npz").write_bytes(b"x" * 9_999 + b"user-14999user-20000")
    assert files_with(tmp_path, long) == ["c.npz"]


def test_a_log_of_the_old_warehouse_is_not_replayed_into_the_new_one(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
):
    """What DuckDB kept beside the old file belongs to it, and may hold the user."""
    folder.take(csv_lines(USER))
    beside = folder.warehouse.path.with_name("warehouse.duckdb.wal")

    @contextmanager
    def with_log(path: Path) -> Iterator[Path]:
        with replacing(path) as temporary:
            yield temporary
        beside.write_text(USER)

    monkeypatch.setattr(tables, "replacing", with_log)
    tables.compact(folder.warehouse)
    assert not beside.exists()
    assert len(folder.query("FROM raw_logs")) == 4


def test_dictionaries_are_those_of_what_is_left(folder: DataFolder):
    """What only she took goes, and an item that she was the first to take is of a later day."""
    folder.take(
        f"{HEADER}{USER},her-own-thing,2024-03-01T12:00:00\n{USER},tea,2024-03-01T12:01:00\n"
    )
    folder.take(csv_lines("carl"), "2024-03-02.csv")
    with folder.warehouse.connect() as connection:
        extend_dictionaries(connection, date(2024, 3, 2))
    erase(folder, USER)
    assert left(folder, "her-own-thing") == []
    later = date(2024, 3, 2)
    assert folder.query("FROM item_dictionary ORDER BY 1") == [(0, "jam", later), (1, "tea", later)]
    names = [(0, "ann", later), (1, "bob", later), (2, "carl", later)]
    assert folder.query("FROM user_dictionary ORDER BY 1") == names


def test_days_that_keep_no_arrays_count_as_made_from_what_is_left(folder: DataFolder):
    """They are not computed again: their figures are means and counts over everybody."""
    folder.take(csv_lines(USER), "2024-03-01.csv")
    folder.take(csv_lines(USER), "2024-03-20.csv")
    retention = replace(folder.settings.artifacts, retention_days=7)
    settings = folder.settings.model_copy(update={"artifacts": retention})
    days = Days(settings)
    old, new = date(2024, 3, 1), date(2024, 3, 20)
    for day in (old, new):
        with folder.warehouse.connect() as connection:
            extend_dictionaries(connection, day)
        matrix = matrix_as_of(folder.warehouse, day)
        arrays, inputs = days.matrix_arrays(matrix), {LOGS: matrix.fingerprint}
        days.publish("interaction_matrix", day, arrays=arrays, inputs=inputs)
    assert len(list(folder.settings.artifacts_dir.rglob("*.npz"))) == 2
    traces, receipt = find_users(settings, [USER]), begin_receipt(folder.warehouse, [USER])
    take_steps(settings, receipt, storage_steps(settings, traces, new), lambda name: None)
    assert list(folder.settings.artifacts_dir.rglob("*.npz")) == []
    with folder.warehouse.reading() as connection:
        now = logs_fingerprints(connection, [old, new])
    made = Days(settings).made
    assert made["interaction_matrix", old].inputs[LOGS] == now[old]
    assert made["interaction_matrix", new].inputs[LOGS] != now[new]


@pytest.mark.parametrize("name", ["a.npz", "a.csv.gz", "a.parquet"])
def test_a_damaged_file_hides_no_other(tmp_path, name):
    whole = {
        "a.npz": lambda path: np.savez_compressed(path, ids=np.arange(9_000)),
        "a.csv.gz": lambda path: path.write_bytes(gzip.compress(b"ada,jazz\n" * 9_000)),
        "a.parquet": lambda path: duckdb.sql("SELECT range FROM range(9000)").write_parquet(
            str(path)
        ),
    }
    whole[name](tmp_path / name)
    content = bytearray((tmp_path / name).read_bytes())
    content[8 : len(content) // 2] = bytes(len(content) // 2 - 8)
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b.txt").write_text("carla-00002")
    assert files_with(tmp_path, ["carla-00002"]) == ["b.txt"]
