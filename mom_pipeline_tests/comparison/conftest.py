"""A small split with the taste of real data, and a way to compare stub methods on it."""

from datetime import date, timedelta

import numpy as np
import pytest

from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.run import Options, run_comparison
from mom_pipeline.comparison.split import split_of_files
from mom_pipeline.logs.ingest import ingest_file
from mom_pipeline.logs.logfiles import log_file
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse

STUBS = "mom_pipeline_tests.comparison.stubs"
FIRST = date(2024, 3, 1)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """train.txt and test.txt: 80 users, 40 items, two tastes, the last items the liked ones."""
    folder = tmp_path_factory.mktemp("toy")
    rng = np.random.default_rng(3)
    lines = {"train": [], "test": []}
    for user in range(80):
        liked = np.arange(1, 41) * np.where(np.arange(40) % 2 == user % 2, 4, 1)
        drawn = rng.choice(40, size=13, replace=False, p=liked / liked.sum())
        lines["train"].append(" ".join(map(str, [user, *drawn[:10]])))
        lines["test"].append(" ".join(map(str, [user, *drawn[10:]])))
    for name, rows in lines.items():
        (folder / f"{name}.txt").write_text("\n".join(rows) + "\n")
    return folder / "train.txt", folder / "test.txt"


@pytest.fixture(scope="session")
def split(files):
    return split_of_files(*files)


@pytest.fixture
def compare(split, tmp_path):
    """Compare some stub methods on the small split."""

    def run(*methods, seconds=60.0, memory=1_000_000_000, **choices):
        options = Options(
            methods=methods, budget=Budget(seconds, memory), registry=STUBS, **choices
        )
        return run_comparison(split, options, tmp_path / "scratch")

    return run


@pytest.fixture
def deliver(tmp_path):
    """Write days of `user item` pairs, ingest them, and return the warehouse."""

    def ingest(*days, **matrix):
        environment = {f"MOM_MATRIX__{key.upper()}": str(value) for key, value in matrix.items()}
        settings = load_settings(tmp_path / "data", environment)
        settings.logs_dir.mkdir(parents=True)
        for number, pairs in enumerate(days):
            if not pairs:
                continue
            day = FIRST + timedelta(days=number)
            rows = [f"{user},{item},{day}T12:00:00" for user, item in map(str.split, pairs)]
            path = settings.logs_dir / f"{day}.csv"
            path.write_text("\n".join(["user,item,timestamp", *rows]) + "\n")
            ingest_file(Warehouse(settings), log_file(path, settings.logs_dir))
        return Warehouse(settings)

    return ingest
