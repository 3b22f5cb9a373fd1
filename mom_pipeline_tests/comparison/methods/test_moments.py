from dataclasses import asdict

import numpy as np
import pytest

from mom_pipeline.comparison.methods import METHODS, PARTS
from mom_pipeline.core import MethodOfMoments, RankingWeights, evaluate_ranking
from mom_pipeline.core.ranking.learning import Window
from mom_pipeline.core.ranking.score import FEATURES
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.threads import using_cores

EVERYONE = np.arange(400)
EXPECTED = {
    "mom-paper": {"estimator": "paper", "personalization": "product"},
    "mom-unbiased": {"estimator": "unbiased", "personalization": "em"},
    "mom-balanced": {"estimator": "balanced", "personalization": "em"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_components_rank_as_the_model_does(name, past):
    settings = {"n_components": 5, "rows": "counts"}
    fitted = METHODS[name].fit(past, 3, **settings)
    rows = {"ranking": "components", "rows": "counts", "seed": 3}
    model = MethodOfMoments(5, **EXPECTED[name], **rows).fit(past)
    np.testing.assert_array_equal(fitted.scores(EVERYONE), model.fitted.scores(past))
    assert fitted.notes["n_components"] == 5


def test_the_paper_sees_binary_data_and_has_no_other_rule(past):
    fitted = METHODS["mom-paper"].fit(past, 0, n_components=5)
    ones = (past > 0).astype(float)
    model = MethodOfMoments(5, "paper", "product", ranking="components").fit(ones)
    np.testing.assert_array_equal(fitted.scores(EVERYONE), model.fitted.scores(ones))
    for settings in METHODS["mom-paper"].grid:
        assert "personalization" not in settings


def test_three_moments_rank_as_the_model_does(past):
    settings = {"n_components": 5, "rows": "counts", "personalization": "tempered"}
    fitted = METHODS["three-moment"].fit(past, 3, **settings)
    model = MethodOfMoments(5, "balanced", "tempered", rows="counts", seed=3).fit(past)
    np.testing.assert_allclose(fitted.scores(EVERYONE), model.fitted.scores(past), rtol=1e-5)
    assert fitted.notes["pairs"] == model.diagnostics["ranking_weights"]["pairs"]


def test_weights_that_are_given_are_not_learnt(past):
    weights = RankingWeights(pairs=(0.0, 0.0), ease=(2.0, 0.5))
    own = {"n_components": 5, "rows": "counts"}
    fitted = METHODS["three-moment"].fit(past, 3, **own, ranking_weights=asdict(weights))
    model = MethodOfMoments(**own, ranking_weights=weights, seed=3).fit(past)
    np.testing.assert_array_equal(fitted.scores(EVERYONE), model.fitted.scores(past))


def test_weights_are_learnt_for_what_lists_may_hold(past):
    """People who only take the same things again: nothing is new, and everything is found."""
    method, window = METHODS["three-moment"], Window(past, past)
    new, chosen = (
        method.choose([window], 0, n_components=5, exclude_seen=own) for own in (True, False)
    )
    assert new["ranking_weights"] == asdict(RankingWeights())
    fitted = method.fit(past, 0, **chosen, exclude_seen=False)
    ids, _ = top_n(fitted.scores(EVERYONE), 20)
    assert evaluate_ranking(ids, past, [20]).recall[20] > 0.99


def test_the_default_number_of_components_shrinks_to_the_data(counts):
    fitted = METHODS["mom-balanced"].fit(counts, 0)
    assert fitted.notes["n_components"] <= 6
    assert np.isfinite(fitted.scores(np.arange(10))).all()


def test_algorithm_1_is_the_papers_and_nothing_of_it_is_chosen(past):
    """Power method with deflation on the paper's moments; the same model on any threads."""
    method = METHODS["mom-algorithm-1"]
    assert method.grid == ({},)
    scores = []
    for cores in (1, 2, 3):
        with using_cores(cores):
            scores.append(method.fit(past, 3, n_components=5).scores(EVERYONE[:50]))
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])
    paper = METHODS["mom-paper"].fit(past, 3, n_components=5).scores(EVERYONE[:50])
    assert np.abs(scores[0] - paper).max() > 1e-3 * np.abs(paper).max()


def test_parts_are_left_out_by_their_weights(past):
    left_out = [METHODS[name].fit.keywords["fixed_weights"] for name in PARTS[1:]]
    assert {name for weights in left_out for name in weights} == set(FEATURES)
    window = Window.hiding(past, np.random.default_rng(0))
    method = METHODS["without-pairs"]
    chosen = method.choose([window], 0, n_components=5)
    assert chosen["ranking_weights"]["pairs"] == (0, 0) != chosen["ranking_weights"]["ease"]
    for settings in (chosen, {"n_components": 5}):
        assert method.fit(past, 0, **settings).notes["pairs"] == (0, 0)
