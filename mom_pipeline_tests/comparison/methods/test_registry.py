import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison.fitting import Task, run_task, write_data
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.methods import ALL, METHODS
from mom_pipeline.comparison.methods.interface import Method, MissingLibrary
from mom_pipeline.comparison.run import REGISTRY, grid_for
from mom_pipeline.comparison.split import TrainTest
from mom_pipeline.core import evaluate_ranking, simulate
from mom_pipeline.core.ranking.topn import brute_force

# Small data needs few components and factors, and less of a ridge.
SMALL = {
    "plsi": {"n_components": 5},
    "bpr": {"factors": 8, "iterations": 60},
    "wrmf": {"factors": 8},
    "mom-algorithm-1": {"n_components": 5},
    "mom-paper": {"n_components": 5},
    "mom-unbiased": {"n_components": 5},
    "mom-balanced": {"n_components": 5},
    "three-moment": {"n_components": 5},
}
NEEDS_IMPLICIT = ["wrmf", "bpr", "item-knn"]


@pytest.fixture(scope="module")
def fits(past_and_future):
    past, _ = past_and_future
    return {
        name: METHODS[name].fit(past, 0, **{**METHODS[name].grid[0], **SMALL.get(name, {})})
        for name in ALL
    }


def precision(scores, past, future):
    ids, _ = brute_force(past, scores, 10)
    return evaluate_ranking(ids, future, [10], train=past).precision[10]


def histories(fitted, past):
    return past if fitted.histories is None else fitted.histories


@pytest.mark.parametrize("name", ALL)
def test_every_method_ranks_better_than_chance(name, fits, past_and_future):
    past, future = past_and_future
    rng = np.random.default_rng(1)
    chance = precision(lambda rows: rng.random(rows.shape), past, future)
    reached = precision(fits[name].scores, histories(fits[name], past), future)
    assert reached > (1.1 if name == "popularity" else 2) * chance


@pytest.mark.parametrize("name", ALL)
def test_scores_are_finite_for_everybody_and_alike_in_any_block(name, fits, past_and_future):
    past = histories(fits[name], past_and_future[0])
    scores = fits[name].scores(past[100:160])
    assert scores.shape == (60, past.shape[1])
    assert np.isfinite(scores).all()
    # Products of other shapes round otherwise: relative to the largest score, as sums do.
    rounding = 1e-5 * np.abs(scores).max()
    alone = fits[name].scores(past[130:140])
    np.testing.assert_allclose(alone, scores[30:40], rtol=0, atol=rounding)
    assert len(np.unique(scores.round(12))) > 10


@pytest.mark.parametrize("name", ALL)
def test_the_data_are_left_alone(name, fits, past_and_future):
    past, _ = past_and_future
    before = past.data.copy()
    fits[name].scores(past)
    np.testing.assert_array_equal(past.data, before)


def test_a_method_is_listed_under_its_name_with_a_grid():
    for name, method in METHODS.items():
        assert isinstance(method, Method)
        assert method.name == name
        assert 1 <= len(method.grid) <= 9
        assert len({tuple(sorted(settings.items())) for settings in method.grid}) == len(
            method.grid
        )


@pytest.mark.parametrize("name", ALL)
def test_the_whole_grid_is_known_to_the_method(name, past_and_future):
    past, _ = past_and_future
    quick = dict(SMALL.get(name, {}))
    quick |= {"iterations": 1} if name in ("wrmf", "bpr") else {}
    quick |= {"max_iterations": 1} if name == "plsi" else {}
    quick |= {"pairs": 1.0} if name == "three-moment" else {}
    for settings in METHODS[name].grid:
        scores = METHODS[name].fit(past[:200], 0, **{**settings, **quick}).scores(past[:3])
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", NEEDS_IMPLICIT)
def test_a_missing_library_is_named_with_its_remedy(name, counts, monkeypatch):
    for module in [m for m in sys.modules if m.split(".")[0] == "implicit"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "implicit", None)
    with pytest.raises(MissingLibrary, match=r"needs the library implicit.*pip install 'mom-pipe"):
        METHODS[name].fit(counts, 0)


def test_the_others_do_without_the_library():
    code = (
        "import sys\n"
        "sys.modules['implicit'] = sys.modules['sklearn'] = None\n"
        "from mom_pipeline.comparison.methods import ALL, METHODS\n"
        "from mom_pipeline.core import simulate\n"
        "_, X = simulate(60, 20, 3)\n"
        "for name in sorted(set(ALL) - {'wrmf', 'bpr', 'item-knn'}):\n"
        "    METHODS[name].fit(X, 0).scores(X)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ALL)
def test_the_number_of_components_is_a_setting_that_the_method_knows(name):
    X = simulate(120, 25, 3)[1]
    settings = grid_for(METHODS[name], 3, TrainTest(X, np.arange(5), X[:5]))[0]
    try:
        fitted = METHODS[name].fit(X, 0, **settings)
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
