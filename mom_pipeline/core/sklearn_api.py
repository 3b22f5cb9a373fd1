"""The model in scikit-learn's manners: parameters, tags, `fit_transform`.

`clone`, `Pipeline` and `GridSearchCV` take the model by these methods alone. scikit-learn is
imported where it hands over an object of its own, and is no dependency.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mom_pipeline.core.errors import InvalidSetting, TooLittleData
from mom_pipeline.core.evaluation.metrics import METRICS, SHOWN_CUTOFF, evaluate_ranking
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.ranking.choose import hold_out
from mom_pipeline.core.types import Array

if TYPE_CHECKING:
    from sklearn.utils import Tags


class EstimatorApi:
    """What scikit-learn asks of an estimator, for a data class whose fields are its settings."""

    if TYPE_CHECKING:  # what the model brings
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
        _fitted: FittedModel | None
        fit: Callable[..., Self]
        transform: Callable[[Any], Array]

        @property
        def fitted(self) -> FittedModel: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name. deep: there are no estimators below this one."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def set_params(self, **params: Any) -> Self:
        """Change settings, all of them or none; what was fitted stays until the next `fit`.

        Raises InvalidSetting for a name or a value that the constructor would refuse.
        """
        known = self.get_params()
        unknown = [name for name in params if name not in known]
        if unknown:
            raise InvalidSetting(
                f"unknown settings: {', '.join(unknown)}; the known ones are {', '.join(known)}"
            )
        checked = type(self)(**{**known, **params})
        for name in params:
            setattr(self, name, getattr(checked, name))
        return self

    def fit_transform(self, X: Any, y: None = None, **fit_params: Any) -> Array:
        """Fit, and return P[component | user] of the same users, (N, K)."""
        return self.fit(X, y, **fit_params).transform(X)

    @property
    def n_features_in_(self) -> int:
        """Items of the fit, under scikit-learn's name."""
        return self.fitted.n_items

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(sparse=True, positive_only=True),
        )


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
