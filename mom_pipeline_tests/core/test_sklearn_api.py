"""The model in scikit-learn's hands: its own checks, `clone`, `Pipeline`, `GridSearchCV`."""

from dataclasses import fields

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

from mom_pipeline.core import MethodOfMoments, RankingScorer, RankingWeights
from mom_pipeline.core.errors import InvalidSetting, TooLittleData

# All weights but one are fixed.
QUICK = {
    f.name: f.default
    for f in fields(RankingWeights)
    if f.name != "users" and not f.name.startswith("length_")
}
# scikit-learn's checks that the model fails, each for a reason; every other one passes.
_WORDS = "refused in words of users and items, not of features"
EXPECTED_FAILURES = {
    "check_do_not_raise_errors_in_init_or_set_params": "wrong settings are refused at once",
    "check_n_features_in_after_fitting": _WORDS,
    "check_estimators_empty_data_messages": _WORDS,
    "check_dtype_object": "all bad input is a ValueError; a TypeError is asked for",
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "settings",
    [{"n_components": 2, "fixed_weights": QUICK}, {"n_components": 1, "ranking": "components"}],
)
def test_scikit_learns_own_checks(settings):
    from sklearn.utils.estimator_checks import check_estimator  # imports all of it

    model = MethodOfMoments(**settings)
    done = check_estimator(model, expected_failed_checks=EXPECTED_FAILURES, on_skip=None)
    found = {check["check_name"]: check["status"] for check in done}
    assert len(found) > 40
    assert {name for name, status in found.items() if status == "xfail"} == set(EXPECTED_FAILURES)


@pytest.fixture(scope="module")
def few(counts):
    return counts[:900]


def quick(n_components=4, **settings):
    return MethodOfMoments(n_components, ranking="components", **settings)


def test_a_setting_is_set_or_nothing_is():
    model = quick(3, anchor_width=4)
    assert model.set_params(n_components=5, anchor_width=6) is model
    assert (model.n_components, model.anchor_width) == (5, 6)
    with pytest.raises(InvalidSetting, match="at least n_components = 9"):
        model.set_params(seed=1, n_components=9)
    assert (model.n_components, model.seed) == (5, 0)
    with pytest.raises(InvalidSetting, match=r"unknown settings: n_topics; .*n_components"):
        model.set_params(n_topics=3)


def test_a_pipeline_classifies_users_by_their_memberships(truth_and_counts):
    """Users of two simulated kinds, told apart by their memberships alone."""
    truth, counts = truth_and_counts
    lean = counts @ np.log(truth.item_probs + 1e-6)
    kind = (lean.argmax(axis=1) == 0).astype(int)
    pipeline = make_pipeline(quick(5, estimator="unbiased"), LogisticRegression())
    pipeline.fit(counts[:3000], kind[:3000])
    assert pipeline.score(counts[3000:], kind[3000:]) > max(0.9, 1.05 * (1 - kind.mean()))


def test_a_search_by_ranking_finds_the_number_of_components(counts):
    search = GridSearchCV(
        quick(), {"n_components": [1, 5]}, scoring=RankingScorer(), cv=KFold(3), error_score="raise"
    ).fit(counts[:2000])
    assert search.best_params_ == {"n_components": 5}
    one, five = search.cv_results_["mean_test_score"]
    assert 0 < one < five < 1
    assert search.best_estimator_.recommend(counts[:2], n=3)[0].shape == (2, 3)


def test_the_scorer_sees_what_the_steps_before_the_model_make(few):
    binary = few.astype(bool).astype(float)
    alone = quick(rows="counts").fit(binary)
    pipeline = make_pipeline(Binarizer(), quick(rows="counts")).fit(few)
    assert RankingScorer()(pipeline, few) == pytest.approx(RankingScorer()(alone, binary))


def test_the_scorer_hides_the_same_again_and_says_what_it_cannot(few):
    model = quick().fit(few)
    assert RankingScorer(seed=3)(model, few) == RankingScorer(seed=3)(model, few)
    assert RankingScorer(seed=3)(model, few) != RankingScorer(seed=4)(model, few)
    with pytest.raises(TooLittleData, match="none of the 300 users has two items"):
        RankingScorer()(model, np.eye(300))
    with pytest.raises(InvalidSetting, match="metric must be one of precision, recall, map, ndcg"):
        RankingScorer("auc")
