"""All methods alike: better than chance, the same in any block, with every setting of the grid."""

import subprocess
import sys

import numpy as np
import pytest

from mom_pipeline.comparison.methods import ALL, METHODS
from mom_pipeline.comparison.run import grid_for
from mom_pipeline.comparison.split import TrainTest
from mom_pipeline.core import evaluate_ranking
from mom_pipeline.core.ranking.topn import hide_seen, top_n

# Small data needs few components and factors.
SMALL = {
    "plsi": {"n_components": 5},
    "bpr": {"factors": 8, "iterations": 60},
    "wrmf": {"factors": 8},
    **{name: {"n_components": 5} for name in ALL if name.startswith(("mom-", "three"))},
}


@pytest.fixture(scope="module")
def fits(past_and_future):
    past, _ = past_and_future
    return {
        name: METHODS[name].fit(past, 0, **{**METHODS[name].grid[0], **SMALL.get(name, {})})
        for name in ALL
    }


def precision(scores, past, future):
    hide_seen(scores, past)
    return evaluate_ranking(top_n(scores, 10)[0], future, [10]).precision[10]


@pytest.mark.parametrize("name", ALL)
def test_every_method_ranks_better_than_chance(name, fits, past_and_future):
    past, future = past_and_future
    rng, before, fitted = np.random.default_rng(1), past.data.copy(), fits[name]
    users = np.arange(past.shape[0])
    chance = precision(rng.random(past.shape), past, future)
    reached = precision(fitted.scores(users), past, future)
    assert reached > (1.1 if name == "popularity" else 2) * chance
    np.testing.assert_array_equal(past.data, before)
    scores = fitted.scores(users[100:160])
    assert scores.shape == (60, past.shape[1])
    assert np.isfinite(scores).all()
    # Products of other shapes round otherwise: relative to the largest score, as sums do.
    rounding = 1e-5 * np.abs(scores).max()
    alone = fitted.scores(users[130:140])
    np.testing.assert_allclose(alone, scores[30:40], rtol=0, atol=rounding)
    assert len(np.unique(scores.round(12))) > 10


def test_a_method_is_listed_under_its_name_with_a_grid():
    for name, method in METHODS.items():
        assert method.name == name
        grid = {tuple(sorted(settings.items())) for settings in method.grid}
        assert 1 <= len(grid) == len(method.grid) <= 9


@pytest.mark.parametrize("name", ALL)
def test_the_whole_grid_and_the_number_of_components_are_known_to_the_method(name, past_and_future):
    past = past_and_future[0][:200]
    method, trial = METHODS[name], TrainTest(past, np.arange(5), past[:5])
    quick = {"bpr": {"iterations": 1}, "wrmf": {"iterations": 1}, "plsi": {"max_iterations": 1}}
    quick["three-moment"] = {"ranking_weights": {}}
    for own, settings in zip(method.grid, grid_for(method, 3, trial), strict=True):
        if method.size:  # a grid that chooses K itself keeps its choice
            assert settings[method.size] == own.get(method.size, 3)
        fitted = method.fit(past, 0, **{**settings, **quick.get(name, {})})
        assert np.isfinite(fitted.scores(np.arange(3))).all()


def test_the_others_do_without_the_library():
    code = (
        "import sys\n"
        "import numpy as np\n"
        "sys.modules['implicit'] = sys.modules['sklearn'] = None\n"
        "from mom_pipeline.comparison.methods import ALL, METHODS\n"
        "from mom_pipeline.core import simulate\n"
        "_, X = simulate(60, 20, 3)\n"
        "for name in sorted(set(ALL) - {'wrmf', 'bpr', 'item-knn'}):\n"
        "    METHODS[name].fit(X, 0).scores(np.arange(60))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
