"""The real methods: what a comparison relies on."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison.fitting import Budget, Task, run_task, write_data
from mom_pipeline.comparison.methods import METHODS
from mom_pipeline.comparison.methods.interface import MissingLibrary
from mom_pipeline.comparison.run import REGISTRY, grid_for
from mom_pipeline.comparison.split import Trial
from mom_pipeline.core import simulate

X = simulate(120, 25, 3)[1]


@pytest.mark.parametrize("name", METHODS)
def test_the_number_of_components_is_a_setting_that_the_method_knows(name):
    settings = grid_for(METHODS[name], 3, Trial(X, np.arange(5), X[:5]))[0]
    try:
        fitted = METHODS[name].fit(X, settings, 0)
    except MissingLibrary as missing:
        pytest.skip(str(missing))
    assert fitted.scores(X[:5]).shape == (5, 25)
    size = METHODS[name].size
    if size:
        # A grid that chooses K itself keeps its choice.
        assert settings[size] == METHODS[name].grid[0].get(size, 3)


@pytest.mark.parametrize(("n_items", "fits"), [(500, True), (7000, False)])
def test_ease_knows_the_budget_of_its_process(n_items, fits, tmp_path):
    """Beyond it LAPACK would end the process, in the middle of its work and without a word."""
    write_data(tmp_path, sparse.csr_array(np.eye(20, n_items)), np.arange(5))
    task = Task(REGISTRY, "ease", ({},), 0, 5, exclude_seen=True)
    (answer,) = run_task(tmp_path, tmp_path / "task", task, Budget(60, 400_000_000))
    wanted = "EASE over 7000 items needs 0.49 GB, allowed are 0."
    assert not answer.failure if fits else answer.failure.startswith(wanted)
    assert fits or "what is left of the budget of 0.4 GB" in answer.failure
