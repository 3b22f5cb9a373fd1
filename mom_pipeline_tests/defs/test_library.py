"""There is one model: a day that is computed in full is `MethodOfMoments.fit` on its rows."""

from collections.abc import Mapping
from dataclasses import asdict

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.algorithm.decomposition import order_like
from mom_pipeline.core.moments.days import width_for_days
from mom_pipeline.pipeline.choice import stated_weights
from mom_pipeline.settings import Settings

from .conftest import MODEL, Pipeline, day

N_DAYS = 3


def library_model(settings: Settings) -> MethodOfMoments:
    """A model of the library with the settings of the pipeline."""
    return MethodOfMoments(
        **asdict(settings.model),
        ranking_weights=stated_weights(settings),
        anchor_width=width_for_days(settings.model.n_components),
    )


@pytest.mark.parametrize(
    ("ranking", "estimator"), [("components", "unbiased"), ("three-moment", "balanced")]
)
def test_a_rebuilt_day_is_a_fit_of_the_library_on_its_rows(
    tmp_path, log_files: Mapping[str, bytes], ranking: str, estimator: str
):
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = Pipeline(tmp_path, instance)
        pipeline.configure(
            'ranking = "components"\n', f'ranking = "{ranking}"\nestimator = "{estimator}"\n'
        )
        weights = "weights = { ease = 0.4, trend_1 = 0.3, quiet = -0.1 }\n"
        pipeline.configure("[rebuild]\n", f"[ranking]\n{weights}[rebuild]\n")
        pipeline.deliver(log_files)
        pipeline.run(1, N_DAYS, only=MODEL, full=True)
        rows = pipeline.days.rows(day(N_DAYS))
        X = rows.X
        ours = pipeline.days.model(day(N_DAYS))
    theirs = library_model(pipeline.settings).fit(X, last_days=rows.last_days)
    # The pipeline keeps the numbers of yesterday's components.
    order = order_like(theirs.item_probs, ours.item_probs)
    np.testing.assert_allclose(ours.item_probs, theirs.item_probs[:, order], atol=1e-6)
    np.testing.assert_allclose(ours.weights, theirs.weights[order], atol=1e-6)
    np.testing.assert_allclose(ours.memberships(X), theirs.transform(X)[:, order], atol=1e-6)
    items, scores = theirs.recommend(X, n=10)
    best = ours.best(X, 10)
    np.testing.assert_array_equal(best.items, items)
    np.testing.assert_allclose(best.scores, scores, rtol=0, atol=1e-6 * scores.max())
    assert theirs.fitted.ranking == ranking == ours.ranking
    assert (items >= 0).mean() > 0.5
