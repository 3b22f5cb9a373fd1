import numpy as np
import pytest

from mom_pipeline.core import simulate
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.simulation import draw_classes, draw_interactions


def test_the_same_seed_gives_the_same_data_and_another_one_other_data():
    first, second, other = (simulate(100, 30, 3, seed=seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.toarray(), second.toarray())
    assert (first.toarray() != other.toarray()).any()


def test_item_frequencies_are_those_of_the_model():
    rng = np.random.default_rng(0)
    truth = draw_classes(20, 3, rng)
    X = draw_interactions(truth, np.full(20_000, 10), rng)
    found = np.asarray(X.sum(axis=0)).ravel() / X.sum()
    np.testing.assert_allclose(found, truth.item_probs @ truth.weights, atol=0.006)


def test_one_class_per_user_shows_in_the_pairs():
    """Pairs of distinct events follow M2 = O diag(pi) O.T."""
    rng = np.random.default_rng(0)
    truth = draw_classes(8, 3, rng)
    X = draw_interactions(truth, np.full(40_000, 6), rng).toarray()
    pairs = (X.T @ X - np.diag(X.sum(axis=0))) / (len(X) * 30)
    M2 = (truth.item_probs * truth.weights) @ truth.item_probs.T
    assert np.abs(pairs - M2).max() < 0.004


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_users": 0},
        {"n_items": 0},
        {"n_components": 0},
        {"n_components": 31},
        {"items_per_user": 2},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(InvalidSetting):
        simulate(**({"n_users": 10, "n_items": 30, "n_components": 3} | wrong))
