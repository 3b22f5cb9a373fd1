"""The real methods: what a comparison relies on."""

import numpy as np
import pytest

from mom_pipeline.baselines.methods import METHODS
from mom_pipeline.baselines.options import MissingLibrary
from mom_pipeline.comparison.options import sized
from mom_pipeline.comparison.trials import Trial
from mom_pipeline.core import simulate

X = simulate(120, 25, 3)[1]


@pytest.mark.parametrize("name", METHODS)
def test_the_number_of_components_is_a_setting_that_the_method_knows(name):
    settings = sized(METHODS[name], 3, Trial(X, np.arange(5), X[:5]))[0]
    try:
        fitted = METHODS[name].fit(X, settings, 0)
    except MissingLibrary as missing:
        pytest.skip(str(missing))
    assert fitted.scores(X[:5]).shape == (5, 25)
    size = METHODS[name].size
    if size:
        # A grid that chooses K itself keeps its choice.
        assert settings[size] == METHODS[name].grid[0].get(size, 3)
