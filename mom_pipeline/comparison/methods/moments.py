"""The method of moments in the forms that a comparison shows; each states what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from mom_pipeline.comparison.methods.interface import Fitted, Method, Settings
from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.ranking.learning import Window, learn_weights
from mom_pipeline.core.ranking.score import weights_from
from mom_pipeline.core.types import Array, Csr

_EM: Settings = {"personalization": "em", "rows": "counts"}


def fit_components(X: Csr, seed: int, *, n_components: int = 100, **settings: Any) -> Fitted:
    """Rank by P[y | u] = sum_k P[y | k] P[k | u] (paper, equation 9)."""
    K = min(n_components, *X.shape)
    return _fitted(MethodOfMoments(K, ranking="components", seed=seed, **settings), X)


def fit_algorithm_1(X: Csr, seed: int, *, n_components: int = 100) -> Fitted:
    """Fit the paper's Algorithm 1 on binary rows; see `MethodOfMoments.algorithm_1`."""
    model = MethodOfMoments.algorithm_1(min(n_components, *X.shape), seed=seed)
    return _fitted(model, X)


def fit_three_moment(
    X: Csr,
    seed: int,
    *,
    n_components: int = 100,
    exclude_seen: bool = True,
    last_days: Csr | None = None,
    ranking_weights: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Fitted:
    """Rank as `core.ranking`; weights that are not given are learnt from a hidden part of X."""
    weights = None if ranking_weights is None else weights_from(ranking_weights)
    model = MethodOfMoments(
        min(n_components, *X.shape), **{**_EM, **settings}, ranking_weights=weights, seed=seed
    )
    return _fitted(model, X, exclude_seen=exclude_seen, last_days=last_days)


def choose_three_moment(
    windows: Sequence[Window],
    seed: int,
    *,
    exclude_seen: bool = True,
    fixed_weights: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Settings:
    """Return the settings with weights learnt from what the users took later."""
    stated = replace(RankingWeights(), **(fixed_weights or {}))
    learnt = learn_weights(
        windows, exclude_seen=exclude_seen, stated=stated, fixed=fixed_weights or (), seed=seed
    )
    return {**settings, "ranking_weights": asdict(learnt.weights)}


def _fitted(
    model: MethodOfMoments, X: Csr, *, exclude_seen: bool = True, last_days: Csr | None = None
) -> Fitted:
    model.fit(X, last_days=last_days, exclude_seen=exclude_seen)

    def scores(users: Array) -> Array:
        days = None if last_days is None else last_days[users]
        return model.fitted.scores(X[users], exclude_seen=exclude_seen, last_days=days)

    notes = {name: model.diagnostics[name] for name in ("n_components", "negative_mass")}
    return Fitted(scores, notes | (model.diagnostics["ranking_weights"] or {}))


THREE_MOMENT = Method(
    "three-moment",
    "Three moments",
    fit_three_moment,
    size="n_components",
    takes=("last_days", "exclude_seen"),
    choose=choose_three_moment,
)
FORMS = (
    Method("mom-algorithm-1", "MoM (Algorithm 1)", fit_algorithm_1, size="n_components"),
    Method(
        "mom-paper",
        "MoM (paper)",
        partial(fit_components, estimator="paper", personalization="product", rows="binary"),
        size="n_components",
    ),
    *(
        Method(
            f"mom-{name}",
            f"MoM ({name})",
            partial(fit_components, estimator=name, **_EM),
            size="n_components",
        )
        for name in ("unbiased", "balanced")
    ),
    THREE_MOMENT,
)

# Each group of features left out in turn, the weights of the others learnt anew.
_FEATURES = {
    "pairs": ("pairs",),
    "ease": ("ease",),
    "low-pass": ("low_pass",),
    "popularity": ("users",),
    "trend": ("trend_1", "trend_14"),
    "quiet": ("quiet",),
    "own-items": ("had", "times", "since"),
}
_NOTHING = (0.0, 0.0)
WITHOUT = tuple(
    replace(
        THREE_MOMENT,
        name=f"without-{part}",
        title=f"without {part}",
        fit=partial(fit_three_moment, fixed_weights=dict.fromkeys(names, _NOTHING)),
        choose=partial(choose_three_moment, fixed_weights=dict.fromkeys(names, _NOTHING)),
    )
    for part, names in _FEATURES.items()
)
