"""Guards taken out of a copy of the code, one at a time: a test has to turn red for each.

python -m mom_pipeline_tests.faults --guards
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mom_pipeline

ROOT = Path(mom_pipeline.__file__).parent.parent


@dataclass(frozen=True)
class Guard:
    """Code that protects something, what is there without it, and the tests that hold it."""

    name: str
    file: str
    code: str
    without: str
    tests: str


GUARDS = (
    Guard(
        "a log that changes while it is read",
        "logs/scan.py",
        "    if (scan.size_bytes, scan.modified) != (now.st_size, now.st_mtime_ns):\n",
        "    if now is None:\n",
        "logs/test_scan.py",
    ),
    Guard(
        "a log that changes before DuckDB reads it",
        "logs/ingest.py",
        "    require_unchanged(file, scan)  # DuckDB has read it a second time\n",
        "",
        "logs/test_ingest.py -k before_duckdb",
    ),
    Guard(
        "every line accounted for",
        "logs/ingest.py",
        "        _require_accounted(file, lines, accepted, sum(reasons.values()))\n",
        "",
        "logs/test_ingest.py -k neither_accepted",
    ),
    Guard(
        "lines counted apart from the parser",
        "logs/ingest.py",
        "    if read != lines:\n",
        "    if read < 0:\n",
        "logs/test_ingest.py -k duckdb_lost",
    ),
    Guard(
        "a file that was cut short",
        "logs/ingest.py",
        "            _require_whole(file, scan, settings.logs)\n",
        "",
        "logs/test_ingest.py -k cut",
    ),
    Guard(
        "fsync before rename",
        "core/files.py",
        "            os.fsync(written.fileno())\n",
        "            pass\n",
        "core/test_files.py",
    ),
    Guard(
        "the .wal of the old warehouse",
        "erasure/tables.py",
        '        warehouse.path.with_name(warehouse.path.name + ".wal").unlink(missing_ok=True)\n',
        "",
        "erasure/test_erasure.py -k old_warehouse",
    ),
    Guard(
        "the lock of the artifacts of an asset",
        "artifacts/store.py",
        "            with locked(folder.parent):\n                publish(",
        "            if True:\n                publish(",
        "artifacts/test_store.py -k processes_that_write",
    ),
    Guard(
        "the sha256 of every array",
        "artifacts/versions.py",
        "            same = sha256_of(path) == expected\n",
        "            same = path.exists() or expected\n",
        "artifacts/test_store.py",
    ),
    Guard(
        "the sha256 of a manifest",
        "artifacts/versions.py",
        '    if not sha256_of(data).startswith(version.name.rpartition("-")[2]):\n',
        "    if not data:\n",
        "artifacts/test_store.py",
    ),
    Guard(
        "a pointer names a version",
        "artifacts/store.py",
        "                if not _VERSION.fullmatch(version):\n",
        "                if not version:\n",
        "artifacts/test_store.py",
    ),
    Guard(
        "a day is fresh when all of it is there",
        "defs/freshness.py",
        "        _require_finished(state, day, delivered)\n",
        "",
        "defs/test_finished.py",
    ),
    Guard(
        "one writer at a time",
        "artifacts/writer.py",
        "            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "            lock.flush()\n",
        "artifacts/test_writer.py",
    ),
    Guard(
        "a run of the daemon takes the lock",
        "defs/resources.py",
        "        with writing_to(self.settings, who, waiting=log.info if log else None):\n",
        "        if who and log:\n",
        "defs/test_runs.py",
    ),
    Guard(
        "a forked process keeps no lock alive",
        "artifacts/writer.py",
        "os.register_at_fork(after_in_child=_leave_to_parent)\n",
        "",
        "artifacts/test_writer.py",
    ),
    Guard(
        "new files are the owner's alone",
        "artifacts/writer.py",
        "    before = os.umask(OWNER_ONLY)\n",
        "    before = os.umask(0o022)\n",
        "artifacts/test_writer.py",
    ),
    Guard(
        "files of an earlier version are closed",
        "artifacts/writer.py",
        "                _close_to_others(settings)\n",
        "",
        "artifacts/test_writer.py",
    ),
    Guard(
        "temporary files of dead processes go",
        "artifacts/writer.py",
        "                remove_left_behind(settings)\n",
        "",
        "artifacts/test_writer.py",
    ),
    Guard(
        "those of living processes stay",
        "artifacts/scratch.py",
        "    return match is not None and not is_running(int(match[match.lastindex or 0]))\n",
        "    return match is not None\n",
        "artifacts/test_writer.py",
    ),
    Guard(
        "a run that never began is not alive for ever",
        "defs/runs.py",
        "    return time.time() - record.create_timestamp.timestamp() > SECONDS_TO_START\n",
        "    return False\n",
        "defs/test_runs.py",
    ),
    Guard(
        "a number of a process that is used again",
        "defs/runs.py",
        "            return host == socket.gethostname() and _started(int(pid)) != started\n",
        "            return host == socket.gethostname() and _started(int(pid)) == 'gone'\n",
        "defs/test_runs.py",
    ),
    Guard(
        "slow clients",
        "ui/slow_clients.py",
        "            self._deadline = self.loop.call_later("
        "SECONDS_FOR_A_REQUEST, self.transport.close)\n",
        "            pass\n",
        "ui/test_slow_clients.py",
    ),
    Guard(
        "rows counted against the ledger",
        "cli/verify.py",
        "            yield from _miscounted(connection, where)\n",
        "",
        "faults/test_faults.py -k row_too_many",
    ),
    Guard(
        "a version is read before it is promoted",
        "serving/registry.py",
        "            self.load(version)\n            history = self.history()\n",
        "            history = self.history()\n",
        "serving/test_registry.py",
    ),
    Guard(
        "a transaction is all or nothing",
        "warehouse/connection.py",
        "        connection.rollback()\n        raise\n",
        "        connection.commit()\n        raise\n",
        "warehouse/test_connection.py logs/test_ingest.py",
    ),
)


def remove_guards(root: Path, told: Callable[[str], None] = print) -> list[str]:
    """Take out every guard by itself; return those that no test noticed."""
    unnoticed = []
    for guard in GUARDS:
        held = is_held(guard, root / "copy")
        told(f"{'held' if held else 'NOT HELD'}: {guard.name}")
        if not held:
            unnoticed.append(f"no test noticed that this was gone: {guard.name}")
    return unnoticed


def is_held(guard: Guard, folder: Path) -> bool:
    """Return whether the tests of a guard turn red without it."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("mom_pipeline", "mom_pipeline_tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    path = folder / "mom_pipeline" / guard.file
    text = path.read_text(encoding="utf-8")
    if text.count(guard.code) != 1:
        raise ValueError(f"{guard.file} must hold the code of {guard.name!r} once; correct it here")
    path.write_text(text.replace(guard.code, guard.without), encoding="utf-8")
    files, _, chosen = guard.tests.partition(" -k ")
    tests = [f"mom_pipeline_tests/{name}" for name in files.split()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    ended = subprocess.run(
        command + (["-k", chosen] if chosen else []), cwd=folder, capture_output=True, check=False
    )
    if ended.returncode not in (0, 1):
        raise ValueError(f"the tests of {guard.name!r} did not run: {ended.stdout.decode()[-500:]}")
    return ended.returncode == 1
