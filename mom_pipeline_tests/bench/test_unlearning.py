"""The bench of forgetting at a toy size: lists equal, and what would not be equal is seen."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from mom_pipeline.bench.unlearning import lists_equal, run_unlearning, with_weights
from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.ranking.score import RankingWeights


@pytest.fixture
def cure4rec(tmp_path):
    """A data set as CURE4Rec publishes them: train, test, and rows of users to be removed."""
    _, X = simulate(400, 60, 3, 12, seed=1)
    X, rng = X.tocoo(), np.random.default_rng(0)
    hidden = rng.random(X.nnz) < 0.2
    core = X.row < 20
    for name, rows in (("train", ~hidden), ("test", hidden), ("core_data_5", core)):
        lines = (f"{u},{i},1\n" for u, i in zip(X.row[rows], X.col[rows], strict=True))
        path = tmp_path / "ml-100k" / f"{name}.csv.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(("uid,iid,val\n" + "".join(lines)).encode()))
    return tmp_path


def test_lists_after_forgetting_are_those_of_retraining(cure4rec):
    result = run_unlearning(cure4rec, n_components=3)
    (row,) = result["rows"]
    assert (row["users"], row["lists"]) == (20, 380)
    assert row["equal"] == 380
    assert row["anew_share"] == pytest.approx(row["anew_seconds"] / row["scratch_seconds"])
    assert 0.2 < row["recall_after"] <= 1
    assert row["recall_after"] == pytest.approx(row["recall_before"], abs=0.1)


def test_a_model_that_still_knows_somebody_has_other_lists():
    _, X = simulate(400, 60, 3, 12, seed=1)
    method = MethodOfMoments(3, ranking_weights=RankingWeights())
    whole, left = method.fit(X).fitted, MethodOfMoments(3).fit(X[50:]).fitted
    weights = replace(RankingWeights(), users=(0.7, 0.0))
    ours, plain = (model.best(X[50:], 20) for model in (with_weights(left, weights), left))
    assert lists_equal(ours, with_weights(whole, weights).best(X[50:], 20)) < 350
    assert lists_equal(ours, plain) < 350
    assert lists_equal(ours, ours) == 350
