"""How much lists, components and popularities moved."""

import numpy as np
import pytest

from mom_pipeline.core.evaluation.drift import drift, list_drift


@pytest.mark.parametrize(
    ("earlier", "moved"),
    [
        ([[1, 2, 3, 4], [5, 6, 7, -1]], 0.0),
        ([[4, 3, 2, 1], [7, 6, 5, -1]], 0.0),  # another order is no other item
        ([[1, 2, 3, 9], [5, 6, 7, -1]], 1 / 7),
        ([[9, 9, 9, 9], [8, 8, 8, 8]], 1.0),
        ([[1, 2, -1, -1], [5, -1, -1, -1]], 4 / 7),
    ],
)
def test_the_share_of_items_that_were_not_listed_before(earlier, moved):
    lists = np.array([[1, 2, 3, 4], [5, 6, 7, -1]])
    assert list_drift(lists, np.array(earlier)) == pytest.approx(moved)


def test_lists_without_items_have_moved_altogether():
    assert list_drift(np.full((2, 3), -1), np.full((2, 3), -1)) == 1.0


def test_a_component_without_counterpart_has_drifted_by_one():
    O = np.array([[0.5, 0.2], [0.5, 0.8]])
    np.testing.assert_allclose(drift(O, O[:, :1]), [0.0, 1.0])
