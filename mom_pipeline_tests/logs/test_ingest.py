"""Exactly once: idempotence, replacement, any order of arrival, refusal without a trace."""

import gzip
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from mom_pipeline.errors import LogFileError, LogFileNotRead
from mom_pipeline.logs.ingest import (
    IngestFailure,
    IngestResult,
    ingest_day,
    ingest_files,
    pending_files,
)
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.logs.readers import stage_log
from mom_pipeline.warehouse.connection import Connection
from mom_pipeline_tests.data_folder import HEADER, DataFolder

T = "2024-03-01T10:00:00"


def log(*users: str) -> str:
    return HEADER + "".join(f"{user},i,{T}\n" for user in users)


def test_the_same_file_again_changes_nothing(folder: DataFolder) -> None:
    assert folder.take(log("a", "b")).status == "new"
    stamp = "SELECT ingested_at::VARCHAR FROM ingest_ledger"
    before = folder.tables(), folder.query(stamp)
    again = folder.ingest("2024-03-01.csv")
    assert (again.status, again.rows_accepted, again.lines) == ("unchanged", 2, 3)
    assert (folder.tables(), folder.query(stamp)) == before


def test_a_changed_file_replaces_exactly_its_own_rows(lenient: DataFolder) -> None:
    lenient.take(log("a", "b") + "bad\n", "2024-03-01.csv")
    lenient.take(log("c"), "2024-03-02.csv")
    result = lenient.take(log("d"), "2024-03-01.csv")
    assert result.status == "replaced"
    assert lenient.ids() == [("d", "i"), ("c", "i")]
    assert lenient.reasons() == []
    assert lenient.query("SELECT count(*), sum(rows_accepted) FROM ingest_ledger") == [(2, 2)]


def test_other_reading_rules_read_the_file_again_and_another_reject_share_does_not(
    folder: DataFolder,
) -> None:
    folder.take(log("a"))
    assert folder.with_logs(max_reject_share=0.5).ingest("2024-03-01.csv").status == "unchanged"
    result = folder.with_logs(timezone="Asia/Taipei").ingest("2024-03-01.csv")
    assert result.status == "replaced"
    assert folder.query("SELECT epoch(event_time) FROM raw_logs") == [(1709258400.0,)]


def test_the_ledger_states_what_was_read(lenient: DataFolder) -> None:
    content = log("a", "b") + ",i,x\nbad\n"
    lenient.take(content)
    row = lenient.query(
        "SELECT size_bytes, sha256, lines, header_lines, rows_accepted, rows_rejected, "
        "rows_set_aside, reject_reasons, settings FROM ingest_ledger"
    )
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    reasons = '{"expected 3 fields, found 1": 1, "no user": 1}'
    rules = lenient.settings.logs.reading_rules()
    assert row == [(len(content), sha256, 5, 1, 2, 2, 0, reasons, rules)]


def test_too_many_rejects_leave_the_previous_state(folder: DataFolder) -> None:
    folder.take(log(*map(str, range(200))))
    before = folder.tables()
    with pytest.raises(LogFileError, match=r"3 of 202 rows.*max_reject_share = 0.01"):
        folder.take(log(*map(str, range(199))) + "bad\n" * 3)
    assert folder.tables() == before
    assert folder.take(log(*map(str, range(198))) + "bad\n" * 2).rows_rejected == 2


def test_rows_that_the_source_set_aside_do_not_count_as_malformed(folder: DataFolder) -> None:
    folder.with_columns(exclude="note")
    result = folder.take(
        f"user,item,timestamp,note\na,i,{T},\n,i,{T},no customer\nb,i,{T},cancelled\n"
        f"c,i,{T},cancelled\n"
    )
    assert (result.rows_accepted, result.rows_rejected, result.rows_set_aside) == (1, 3, 3)
    assert result.reject_reasons == {"set aside: cancelled": 2, "set aside: no customer": 1}


def test_lines_that_duckdb_lost_are_noticed(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the scan's own count, a parser that loses a line would go unseen."""
    one_line = "CREATE OR REPLACE TEMP TABLE staged_lines AS SELECT $path AS text"
    monkeypatch.setattr("mom_pipeline.logs.readers.load_sql", lambda name: one_line)
    with pytest.raises(LogFileError, match="has 3 lines, but 1 were read"):
        folder.take(log("a", "b"))
    assert folder.tables()["raw_logs"] == []


def test_a_line_that_is_neither_accepted_nor_rejected_is_noticed(
    lenient: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would be if the rules had a hole between those for good and for bad lines."""
    monkeypatch.setattr("mom_pipeline.logs.ingest._insert_rejected", lambda *_: {})
    with pytest.raises(LogFileError, match="1 without a row \\+ 1 accepted \\+ 0 rejected"):
        lenient.take(log("a") + "not,a,line,of,ours\n")
    assert lenient.tables()["raw_logs"] == []
    assert lenient.tables()["ingest_ledger"] == []


def test_a_file_that_changes_before_duckdb_reads_it_is_not_taken(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum in the ledger must be that of the rows."""

    def changed_meanwhile(connection: Connection, file: LogFile, *how: Any) -> int:
        file.path.write_bytes(file.path.read_bytes().replace(b"a,", b"z,"))
        os.utime(file.path, (1, 1))
        return stage_log(connection, file, *how)

    monkeypatch.setattr("mom_pipeline.logs.ingest.stage_log", changed_meanwhile)
    with pytest.raises(LogFileNotRead, match="changed while it was read"):
        folder.take(log("a", "b"))
    assert folder.tables()["raw_logs"] == []


def test_a_sha256_file_must_fit_in_any_of_its_forms(folder: DataFolder) -> None:
    sha256 = hashlib.sha256(log("a").encode()).hexdigest()
    for text in ("", "0" * 64, b"\xff\xfe"):
        folder.write("2024-03-01.csv.sha256", text)
        with pytest.raises(LogFileError, match=r"2024-03-01.csv.sha256 states"):
            folder.take(log("a"))
    for day, text in enumerate([sha256, f"{sha256}  2024-03-01.csv\n", f"{sha256.upper()} *x"], 1):
        folder.write(f"2024-03-0{day}.csv.sha256", text)
        assert folder.take(log("a"), f"2024-03-0{day}.csv").rows_accepted == 1


def test_a_checksum_is_required_where_the_settings_say_so_and_a_pipe_is_none(
    folder: DataFolder,
) -> None:
    folder.with_logs(require_checksum=True)
    with pytest.raises(LogFileError, match=r"has no 2024-03-01.csv.sha256 beside it"):
        folder.take(log("a"))
    assert folder.tables()["ingest_ledger"] == []
    folder.write("2024-03-01.csv.sha256", hashlib.sha256(log("a").encode()).hexdigest())
    assert folder.ingest("2024-03-01.csv").status == "new"
    assert folder.with_logs(require_checksum=False).ingest("2024-03-01.csv").status == "unchanged"
    os.mkfifo(folder.settings.logs_dir / "2024-03-02.csv.sha256")
    assert folder.take(log("a"), "2024-03-02.csv").status == "new"


def cuts(whole: bytes) -> list[int]:
    """63 random lengths of a file that was cut short, and three that end with a line."""
    rng = random.Random(13)
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    return [rng.randrange(1, len(whole)) for _ in range(63)] + ends[:3]


def test_random_cuts_are_refused_but_for_those_at_a_line_end(folder: DataFolder) -> None:
    """Whole lines cannot be told from a whole file without a checksum; all else can."""
    whole = log(*(f"user {n}" for n in range(40))).encode()
    folder.take(whole)
    before = folder.tables()
    for cut in cuts(whole):
        if not whole[:cut].endswith(b"\n"):
            with pytest.raises(LogFileError, match="may have been cut short: expected a line end"):
                folder.take(whole[:cut])
    assert folder.tables() == before
    at_line_end = [cut for cut in cuts(whole) if whole[:cut].endswith(b"\n")]
    assert folder.take(whole[: at_line_end[-1]]).rows_accepted == 2


@pytest.mark.parametrize("name", ["2024-03-01.csv", "2024-03-01.csv.gz"])
def test_every_cut_is_refused_where_there_is_a_checksum(folder: DataFolder, name: str) -> None:
    whole = log(*(f"user {n}" for n in range(40))).encode()
    packed = gzip.compress(whole, mtime=0) if name.endswith(".gz") else whole
    folder.write(f"{name}.sha256", hashlib.sha256(packed).hexdigest())
    for cut in cuts(whole):
        shorter = whole[:cut]
        with pytest.raises(LogFileError, match=f"but {name}.sha256 states"):
            folder.take(gzip.compress(shorter) if name.endswith(".gz") else shorter, name)
    assert folder.take(packed, name).rows_accepted == 40


@pytest.mark.parametrize("name", ["2024-03-01.tsv", "2024-03-01.jsonl", "2024-03-01.csv.gz"])
def test_a_last_line_needs_its_end_in_every_text_format(folder: DataFolder, name: str) -> None:
    text = log("a").rstrip("\n")
    if name.endswith("jsonl"):
        text = f'{{"user": "a", "item": "i", "timestamp": "{T}"}}'
    content = text.replace(",", "\t") if name.endswith("tsv") else text
    packed = gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
    with pytest.raises(LogFileError, match="may have been cut short: expected a line end"):
        folder.take(packed, name)
    folder.write(f"{name}.sha256", hashlib.sha256(packed).hexdigest())
    assert folder.take(packed, name).rows_accepted == 1


def test_a_file_read_by_earlier_rules_is_read_again(folder: DataFolder) -> None:
    """Warehouses that were written before lines were judged as today come up to date."""
    folder.take(log("a"))
    rules = json.loads(folder.settings.logs.reading_rules())
    del rules["version"]
    with folder.warehouse.connect() as connection:
        connection.execute(
            "UPDATE ingest_ledger SET settings = $rules", {"rules": json.dumps(rules)}
        )
    assert [file.source_file for file in pending_files(folder.warehouse)] == ["2024-03-01.csv"]
    assert folder.ingest("2024-03-01.csv").status == "replaced"
    assert pending_files(folder.warehouse) == []


def test_a_file_that_vanished_is_refused_and_stops_no_other(folder: DataFolder) -> None:
    folder.write("2024-03-01.csv", log("a"))
    folder.write("2024-03-02.csv", log("b"))
    files = discover(folder.settings.logs_dir).files
    files[0].path.unlink()
    refused, taken = ingest_files(folder.warehouse, files)
    assert isinstance(refused, IngestFailure)
    assert "could not be read" in str(refused.error)
    assert isinstance(taken, IngestResult)
    assert folder.ids() == [("b", "i")]


def test_many_files_again_are_skipped_by_their_bytes(folder: DataFolder) -> None:
    for day in (1, 2):
        folder.write(f"2024-03-0{day}.csv", log("a"))
    files = discover(folder.settings.logs_dir).files
    assert [r.status for r in ingest_files(folder.warehouse, files)] == ["new", "new"]  # type: ignore[union-attr]
    assert pending_files(folder.warehouse) == []
    folder.write("2024-03-02.csv", log("b"))  # as many bytes
    folder.write("2024-03-03.csv", log("c"))
    pending = [file.source_file for file in pending_files(folder.warehouse)]
    assert pending == ["2024-03-02.csv", "2024-03-03.csv"]
    assert [r.status for r in ingest_files(folder.warehouse, files)] == ["unchanged", "replaced"]  # type: ignore[union-attr]


def test_a_file_older_than_its_ledger_entry_is_not_read_again(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.take(log("a"))
    with monkeypatch.context() as patched:
        patched.setattr("mom_pipeline.logs.ingest.sha256_of", lambda path: "read")
        assert len(pending_files(folder.warehouse)) == 1
        patched.setattr("mom_pipeline.logs.ingest._CLOCK_STEP", timedelta(hours=-1))
        assert pending_files(folder.warehouse) == []
    path = folder.write("2024-03-01.csv", log("b"))  # as many bytes, and an old time of its own
    os.utime(path, (0, 0))
    assert [file.path for file in pending_files(folder.warehouse)] == [path]


def test_a_corrected_file_is_seen_where_the_clock_was_set_back_since(folder: DataFolder) -> None:
    folder.take(log("a"))
    with folder.warehouse.connect() as connection:
        connection.execute("UPDATE ingest_ledger SET ingested_at = now() + INTERVAL 5 YEAR")
    assert pending_files(folder.warehouse) == []
    path = folder.write("2024-03-01.csv", log("b"))  # as many bytes
    assert [file.path for file in pending_files(folder.warehouse)] == [path]


def test_a_day_is_ingested_by_its_files(folder: DataFolder) -> None:
    for name in ("2024-03-01.csv", "day=2024-03-01/more.csv", "2024-03-02.csv"):
        folder.write(name, log(name))
    results = ingest_day(folder.warehouse, date(2024, 3, 1))
    assert [o.file.source_file for o in results] == ["2024-03-01.csv", "day=2024-03-01/more.csv"]
    assert ingest_day(folder.warehouse, date(2024, 3, 9)) == []


# --- Any order of arrival --------------------------------------------------------------------


def _version(rng: random.Random) -> str:
    users = [f"u{rng.randrange(6)}" for _ in range(rng.randrange(5))]
    lines = [f"{u},i{rng.randrange(4)},2024-03-0{rng.randrange(1, 5)}\n" for u in users]
    lines += ["bad\n"] * rng.randrange(2)
    return HEADER + "".join(rng.sample(lines, len(lines)))


def _history(rng: random.Random, final: dict[str, str]) -> list[tuple[str, str]]:
    """Deliveries in random order of days, with corrections before and repetitions after."""
    names = list(final)
    history = [(name, _version(rng)) for name in rng.choices(names, k=2)]
    for name in rng.sample(names, len(names)):
        history.append((name, final[name]))
        if rng.random() < 0.4:
            history.append(rng.choice([h for h in history if final[h[0]] == h[1]]))
    return history


def test_random_interleavings_equal_the_one_shot_load(
    new_folder: Callable[[str], DataFolder],
) -> None:
    """Arrival, re-delivery, late days and corrections in any order: the same tables."""
    for truth in range(3):
        rng = random.Random(truth)
        final = {f"2024-03-0{n}.csv": _version(rng) for n in range(1, 5)}
        one_shot = new_folder(f"once-{truth}").with_logs(max_reject_share=1.0)
        one_shot.take_all(final.items())
        expected = one_shot.tables()
        for order in range(3):
            folder = new_folder(f"steps-{truth}-{order}").with_logs(max_reject_share=1.0)
            folder.take_all(_history(rng, final))
            assert folder.tables() == expected, f"truth {truth}, order {order}"


# --- Killed, and out of disk -----------------------------------------------------------------

# Reads files and ingests them, in a process of its own.
_INGEST = """
import os
import sys
from itertools import count
from pathlib import Path
from mom_pipeline.settings import load_settings
from mom_pipeline.core.files import write_text
from mom_pipeline.logs.ingest import IngestFailure, ingest_files
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.warehouse.connection import Warehouse
settings = load_settings(Path(sys.argv[1]), {})

def ingest_all():
    for result in ingest_files(Warehouse(settings), discover(settings.logs_dir).files):
        if isinstance(result, IngestFailure):
            raise result.error
"""


def _assert_ledger_matches_rows(folder: DataFolder) -> None:
    """Whatever the moment: rows and ledger agree, file by file."""
    differing = folder.query(
        """
        SELECT * FROM (SELECT source_file, count(*) AS n, count(DISTINCT line) AS d
                       FROM raw_logs GROUP BY source_file) AS r
        FULL JOIN (FROM ingest_ledger WHERE rows_accepted > 0) AS l USING (source_file)
        WHERE r.n IS DISTINCT FROM l.rows_accepted OR r.d IS DISTINCT FROM l.rows_accepted
        """
    )
    assert differing == []


# New versions of five days, ingested again and again: whenever it is killed, it is at work. A line
# of input forks a process that does so (the libraries are loaded only once) and prints its id; the
# signal that ended it comes back.
_INGEST_FOREVER = """
def ingest_forever():
    for generation in count():
        for day in range(1, 6):
            users = range(2000 + 100 * day + generation)
            rows = "".join(f"{generation}-{n},i,2024-03-01\\n" for n in users)
            path = settings.logs_dir / f"2024-03-0{day}.csv"
            write_text(path, "user,item,timestamp\\n" + rows + "bad\\n")
        ingest_all()

for _ in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            ingest_forever()
        finally:
            os._exit(1)
    print(pid, flush=True)
    print(os.WTERMSIG(os.waitpid(pid, 0)[1]), flush=True)
"""


def _kill_at_random_moments(folder: DataFolder, times: int) -> None:
    """Ingest in a process until it is killed, again and again; look at the tables after each."""
    rng = random.Random(3)
    with subprocess.Popen(
        [sys.executable, "-c", _INGEST + _INGEST_FOREVER, str(folder.settings.data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        for _ in range(times):
            starter.stdin.write("start\n")
            pid = int(starter.stdout.readline())
            time.sleep(rng.uniform(0.0, 0.25))
            os.kill(pid, signal.SIGKILL)
            assert int(starter.stdout.readline()) == signal.SIGKILL
            _assert_ledger_matches_rows(folder)


def test_kill_9_at_50_random_moments_loses_and_doubles_nothing(
    new_folder: Callable[[str], DataFolder],
) -> None:
    killed, whole = new_folder("killed"), new_folder("whole")
    _kill_at_random_moments(killed, 50)
    # Whatever was ingested before the last kill, this is not: the ingest has something to do, and
    # with that it removes what the killed ones left.
    killed.write("2024-03-06.csv", log("last"))
    for path in killed.settings.logs_dir.glob("*.csv"):
        whole.write(path.name, path.read_bytes())
    for data_folder in (killed, whole):
        for result in ingest_files(
            data_folder.warehouse, discover(data_folder.settings.logs_dir).files
        ):
            assert isinstance(result, IngestResult)
    assert len(whole.tables()["ingest_ledger"]) == 6
    assert killed.tables() == whole.tables()
    assert list(killed.settings.scratch_dir.glob("ingest-*")) == []


def _limit_file_size() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


def test_a_disk_that_fills_up_is_an_error_and_the_repetition_converges(
    folder: DataFolder, tmp_path: Path
) -> None:
    """Writes that fail with EFBIG take the way of a full disk, COMMIT included."""
    users = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(20_000)]
    folder.take(log("first"), "2024-03-02.csv")
    folder.write("2024-03-01.csv", log(*users))
    process = subprocess.run(
        [sys.executable, "-c", _INGEST + "ingest_all()", str(folder.settings.data_dir)],
        preexec_fn=_limit_file_size,
        capture_output=True,
        text=True,
    )
    assert process.returncode != 0
    assert "Repeat the ingest" in process.stderr
    folder.ingest("2024-03-02.csv")
    folder.ingest("2024-03-01.csv")
    _assert_ledger_matches_rows(folder)
    assert folder.query("SELECT count(*) FROM raw_logs") == [(20_001,)]
