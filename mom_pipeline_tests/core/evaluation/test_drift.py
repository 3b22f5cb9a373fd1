"""How much components and popularities moved."""

import numpy as np
import pytest

from mom_pipeline.core.evaluation.drift import drift, popularity_drift


def test_a_component_without_counterpart_has_drifted_by_one():
    O = np.array([[0.5, 0.2], [0.5, 0.8]])
    np.testing.assert_allclose(drift(O, O[:, :1]), [0.0, 1.0])


def test_popularity_moves_by_the_share_that_went_elsewhere():
    assert popularity_drift(np.array([3.0, 1.0]), np.array([1.0, 1.0])) == pytest.approx(0.25)
