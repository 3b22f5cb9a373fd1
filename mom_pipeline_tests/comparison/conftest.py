"""Small data with the taste of real ones: a ready split, days of logs, and counts to fit."""

from datetime import date, timedelta

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.run import Options, run_comparison
from mom_pipeline.comparison.split import split_of_files
from mom_pipeline.core.ranking.learning import Window
from mom_pipeline.core.simulation import simulate
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline_tests.data_folder import DataFolder

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

    def run(*methods, seconds=600.0, memory=1_000_000_000, **choices):
        options = Options(
            methods=methods, budget=Budget(seconds, memory), registry=STUBS, **choices
        )
        return run_comparison(split, options, tmp_path / "scratch")

    return run


@pytest.fixture(scope="session")
def deliver(tmp_path_factory):
    """Write days of `user item` pairs, ingest them once, and return the warehouse."""
    folders = {}

    def warehouse(*days, **matrix):
        if str(days) not in folders:
            folders[str(days)] = tmp_path_factory.mktemp("data")
            DataFolder(folders[str(days)]).take_all(
                (f"{day}.csv", delivery(day, pairs))
                for day, pairs in zip(map(later, range(len(days))), days, strict=True)
                if pairs
            )
        environment = {f"MOM_MATRIX__{key.upper()}": str(value) for key, value in matrix.items()}
        return Warehouse(load_settings(folders[str(days)], environment))

    def later(number):
        return FIRST + timedelta(days=number)

    def delivery(day, pairs):
        rows = [f"{user},{item},{day}T12:00:00" for user, item in map(str.split, pairs)]
        return "\n".join(["user,item,timestamp", *rows]) + "\n"

    return warehouse


@pytest.fixture
def counts():
    """Ten users of six items, one of them without a history, two with the same one."""
    rows = [
        [2, 0, 1, 0, 3, 0],
        [0, 1, 0, 1, 0, 0],
        [1, 1, 1, 1, 1, 0],
        [0] * 6,
        [4, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 0, 1],
        [0, 1, 0, 1, 0, 0],
        [0, 2, 1, 0, 0, 1],
        [0, 0, 1, 1, 0, 1],
        [1, 3, 0, 0, 0, 0],
    ]
    return sparse.csr_array(np.array(rows, dtype=float))


@pytest.fixture(scope="session")
def past_and_future():
    """Counts of 1,500 users of 120 items in five components, and the fifth of them to be found."""
    _, X = simulate(1_500, 120, 5, items_per_user=15, seed=3, zipf_exponent=0.3)
    window = Window.hiding(X, np.random.default_rng(0))
    return window.X, window.later


@pytest.fixture
def past(past_and_future):
    return past_and_future[0][:400]
