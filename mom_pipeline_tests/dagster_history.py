"""Dagster's history of a data folder, as another process would open it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from dagster import DagsterInstance


@contextmanager
def history_in(home: Path) -> Iterator[DagsterInstance]:
    """The instance of a home folder; its configuration takes the folder from the environment."""
    with (
        mock.patch.dict(os.environ, {"DAGSTER_HOME": str(home)}),
        DagsterInstance.from_config(str(home)) as instance,
    ):
        yield instance
