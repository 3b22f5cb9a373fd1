import numpy as np
import pytest

from mom_pipeline.comparison.methods.popularity import fit_popularity


@pytest.mark.parametrize(
    ("values", "expected"),
    [("binary", [5, 5, 4, 4, 3, 3]), ("counts", [9, 8, 4, 4, 5, 3])],
)
def test_items_are_scored_by_their_users_or_their_events(counts, values, expected):
    scores = fit_popularity(counts, 0, values=values).scores(counts[:3])
    np.testing.assert_array_equal(scores, [expected] * 3)


def test_a_block_may_be_written_to(counts):
    fitted = fit_popularity(counts, 0)
    first = fitted.scores(counts)
    before = first.copy()
    first[:] = -np.inf
    np.testing.assert_array_equal(fitted.scores(counts), before)
