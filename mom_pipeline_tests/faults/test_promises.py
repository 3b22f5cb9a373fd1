"""Promises of `README.md` beside that no other test holds."""

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from mom_pipeline.pipeline.days import INPUTS
from mom_pipeline_tests.cli.conftest import mom, statuses
from mom_pipeline_tests.faults.folders import copy
from mom_pipeline_tests.faults.kills import USER, Ground, prepared

# What a run may add to Dagster's own history, in bytes.
_HISTORY_OF_A_RUN = 1_500_000
_WITHOUT_NETWORK = """
import socket, sys
def heard(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        assert arguments[1][0] in ("127.0.0.1", "::1"), f"network: {arguments}"
    if event == "socket.getaddrinfo":
        assert arguments[0] in (None, "localhost"), f"network: {arguments}"
sys.addaudithook(heard)
if sys.argv[1] == "connect":
    socket.create_connection(("192.0.2.1", 80), timeout=1)
from mom_pipeline.cli.main import cli
cli(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with prepared(tmp_path_factory.mktemp("promises")) as ground:
        yield ground


def test_a_day_is_done_when_all_of_its_assets_are(ground: Ground, tmp_path):
    folder = copy(ground.fresh, tmp_path / "data")
    warehouse = folder / "warehouse.duckdb"
    whole = warehouse.read_bytes()
    assert set(statuses(folder).values()) == {"fresh"}
    for asset in INPUTS:
        with duckdb.connect(str(warehouse)) as connection:
            row = f"asset = '{asset}' AND day = '2024-03-02'"
            connection.execute(f"DELETE FROM materializations WHERE {row}")
        assert statuses(folder)["02"] == "missing", asset
        warehouse.write_bytes(whole)


def test_no_network_but_what_is_configured(ground: Ground, tmp_path):
    folder = copy(ground.stale, tmp_path / "data")

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", _WITHOUT_NETWORK, *words],
            env={**os.environ, "MOM_DATA_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert "network" in run("connect").stderr
    done = run("update")
    assert done.returncode == 0, done.stderr[-2000:]


def sqlite(path: Path) -> Any:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute("PRAGMA quick_check(1)").fetchall()


def arrays(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def tables(path: Path) -> Any:
    with duckdb.connect(str(path), read_only=True) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        return [connection.execute(f"FROM {name}").fetchall() for name in names]


OPENERS: dict[str, Callable[[Path], Any]] = {
    ".npz": arrays,
    ".duckdb": tables,
    ".db": sqlite,
    ".parquet": lambda path: duckdb.sql(f"FROM '{path}'").fetchall(),
    ".gz": lambda path: gzip.decompress(path.read_bytes()).decode().splitlines(),
    ".json": lambda path: json.loads(path.read_bytes()),
    ".toml": lambda path: tomllib.loads(path.read_text()),
    **dict.fromkeys(
        (".html", ".csv", ".yaml", ".sha256", ".out", ".err", ".complete", ""), Path.read_text
    ),
}


def test_every_file_is_read_without_us(ground: Ground, tmp_path):
    folder = copy(ground.fresh, tmp_path / "data")
    mom(folder, "erase", USER, "--yes")
    opened = set()
    for path in (p for p in folder.rglob("*") if p.is_file()):
        OPENERS[path.suffix](path)
        opened.add(path.suffix)
    assert opened >= {".npz", ".duckdb", ".db", ".parquet", ".gz", ".json", ".toml", ".html"}


def test_what_a_run_adds_to_the_history_is_bounded(ground: Ground, tmp_path):
    folder = copy(ground.fresh, tmp_path / "data")

    def history() -> tuple[int, int]:
        files = [path for path in (folder / "dagster_home").rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files), len(files)

    (before, files), days = history(), ("--from", "2024-03-03", "--to", "2024-03-03")
    for _ in range(3):
        mom(folder, "backfill", *days)
    after, now = history()
    assert now > files
    assert 10_000 < (after - before) / 3 < _HISTORY_OF_A_RUN
