"""Commands as typed, in this process, and a small folder that they have computed."""

import csv
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pytest
from click.testing import CliRunner

from mom_pipeline.cli.main import cli
from mom_pipeline.core.errors import MomError
from mom_pipeline_tests.defs.conftest import SETTINGS_FILE

SIZES = ("--days", "4", "--users", "300", "--items", "60", "--components", "3", "--events", "900")


@dataclass(frozen=True)
class Said:
    """What a command printed; the error that ended it is a part of stderr, as `main` prints it."""

    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def mom(
    folder: Path,
    *arguments: str,
    code: int = 0,
    error: type[MomError] | None = None,
    typed: str | None = None,
    **environment: str,
) -> Said:
    """Run a command on a data folder; it must end with this exit code, or by this error."""
    place = {"MOM_DATA_DIR": str(folder), "COLUMNS": "200"}
    with mock.patch.dict(os.environ, place | environment):
        done = CliRunner().invoke(cli, arguments, input=typed)
    raised = done.exception
    if raised is not None and not isinstance(raised, MomError | SystemExit):
        raise raised
    said = Said(done.stdout, done.stderr + (str(raised) if isinstance(raised, MomError) else ""))
    assert done.exit_code == (1 if error else code), f"{done.exit_code}: {said}"
    assert error is None or isinstance(raised, error), raised
    return said


def statuses(folder: Path) -> dict[str, str]:
    """The status of every day, by the day of March."""
    days = mom(folder, "status", "--json").json["days"]
    return {day["day"][-2:]: day["status"] for day in days}


def rows(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def in_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def sample(folder: Path) -> Path:
    """Four days of sample logs, with settings under which they are computed in seconds."""
    mom(folder, "simulate", *SIZES, "--first-day", "2024-03-01")
    (folder / "pipeline.toml").write_text(SETTINGS_FILE)
    return folder


@pytest.fixture(scope="session")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The sample after `demo`, and what that printed. Only to be looked at."""
    folder = sample(tmp_path_factory.mktemp("computed") / "data")
    assert set(statuses(folder).values()) == {"missing"}
    return folder, mom(folder, "demo").stdout


@pytest.fixture(scope="session")
def computed(demonstrated: tuple[Path, str]) -> Path:
    """The same folder. Only to be looked at."""
    return demonstrated[0]


@pytest.fixture
def shop(computed: Path, tmp_path: Path) -> Path:
    """A copy of the computed folder, to be changed."""
    return Path(shutil.copytree(computed, tmp_path / "shop"))


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Said]:
    """Commands on an empty folder."""
    return lambda *arguments, **how: mom(tmp_path / "data", *arguments, **how)
