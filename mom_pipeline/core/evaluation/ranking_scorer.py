"""A scorer for `GridSearchCV` and its kin: what lists find of items that were hidden."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mom_pipeline.core.errors import InvalidSetting, TooLittleData
from mom_pipeline.core.evaluation.metrics import METRICS, SHOWN_CUTOFF, evaluate_ranking
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.ranking.choose import hold_out


@dataclass(frozen=True)
class RankingScorer:
    """Hides a fifth of every user's items, and scores the lists from the rest on it.

    metric: "precision", "recall", "map" or "ndcg", at the cut-off.  seed: of what is hidden; the
    same users are asked the same whatever the settings.

        GridSearchCV(MethodOfMoments(), {"n_components": [20, 50]}, scoring=RankingScorer())
    """

    metric: str = "ndcg"
    cutoff: int = SHOWN_CUTOFF
    seed: int = 0

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InvalidSetting(
                f"metric must be one of {', '.join(METRICS)}, found {self.metric!r}"
            )

    def __call__(self, estimator: Any, X: Any, y: None = None) -> float:
        """Return the mean over the users of X with two items or more; more is better.

        estimator: a fitted model, or a scikit-learn `Pipeline` that ends with one.
        """
        X = as_interactions(X)
        split = hold_out(X, np.random.default_rng(self.seed), max_users=X.shape[0])
        if split is None:
            raise TooLittleData(
                f"none of the {X.shape[0]} users has two items, so that nothing can be hidden; "
                "score on users with more"
            )
        model, rows = estimator, split.train[split.users]
        if hasattr(estimator, "steps"):
            model = estimator[-1]
            rows = estimator[:-1].transform(rows) if len(estimator.steps) > 1 else rows
        ids, _ = model.recommend(rows, self.cutoff)
        metrics = evaluate_ranking(ids, split.test, (self.cutoff,))
        return float(getattr(metrics, self.metric)[self.cutoff])
