"""nDCG by length of history and by age of item."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison.breakdown import AGE, HISTORY, breakdown
from mom_pipeline.comparison.split import TrainTest


@pytest.fixture
def trial():
    """Two users of one item and one of three; items 0 and 1 are old, 2 of 10 days, 3 is new."""
    days = sparse.csr_array(
        np.array([[100.0, 0, 0, 0], [0, 101, 0, 0], [110, 190, 191, 0], [0, 0, 0, 200]])
    )
    train = sparse.csr_array((days.toarray() > 0).astype(float))
    test = sparse.csr_array(
        np.array([[0.0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1]])  # the last is unknown
    )
    return TrainTest(train, np.array([0, 1, 2]), test, last_days=days)


def test_each_group_has_its_own_mean(trial):
    ids = np.array([[1, 2], [2, 3], [0, 1]])
    groups = breakdown(ids, trial, 2)
    second = 1 / np.log2(3)
    assert groups[HISTORY] == {
        "1–2 items (2 users)": pytest.approx((1 + second) / 2),
        "3–5 items (1 users)": 0.0,
    }
    assert groups[AGE] == {
        "0–7 days (2 users)": pytest.approx(second / 2),
        "over 30 days (1 users)": 1.0,
    }


def test_without_days_there_are_no_ages(trial):
    undated = TrainTest(trial.train, trial.users, trial.test)
    assert set(breakdown(np.array([[1], [2], [0]]), undated, 1)) == {HISTORY}
