"""Given the weights of the choice, a day's lists are those of a full fit on the same rows."""

from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench.day_gate import Events, read_log
from mom_pipeline_tests.faults.every_list import compare

COLUMNS = ("users", "items", "times")
SHARED = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.mark.parametrize(
    ("log", "n_days", "at_first", "seed"),
    [
        ("movietweetings", 6, 40, 7),
        pytest.param("movietweetings", 60, 1, 2, marks=pytest.mark.long),
        pytest.param("30music", 60, 150, 3, marks=pytest.mark.long),
    ],
)
def test_every_list_of_every_day_is_that_of_a_full_fit(log, n_days, at_first, seed, tmp_path):
    """at_first: days that are delivered as one."""
    if not SHARED.is_dir():
        pytest.skip(f"{log} is not beside the repository")
    days = list(read_log(SHARED, log).items())[-n_days - at_first :]
    parts = [events for _, events in days[: at_first + 1]]
    joined = Events(*(np.concatenate([getattr(p, name) for p in parts]) for name in COLUMNS))
    compared = compare(tmp_path, dict([(days[at_first][0], joined), *days[at_first + 1 :]]), seed)
    assert {change.split()[1] for change in compared.changes} == {"late", "corrected", "dropped"}
    assert compared.incremental >= n_days // 3
    assert compared.lists > 100 * compared.days
    assert compared.equal == compared.lists
