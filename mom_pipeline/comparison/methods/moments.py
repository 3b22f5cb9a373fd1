"""The method of moments itself, in the forms that a comparison shows.

A form states only what differs from the defaults of `MethodOfMoments`.
"""

from dataclasses import fields, replace
from functools import partial
from typing import Any

from mom_pipeline.comparison.methods.interface import Fitted, Method, Settings
from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.ranking.score import NO_AGEING
from mom_pipeline.core.types import Csr

_WEIGHTS = {field.name for field in fields(RankingWeights)}
_EM: Settings = {"personalization": "em", "rows": "counts"}


def fit_components(X: Csr, seed: int, *, n_components: int = 100, **settings: Any) -> Fitted:
    """Rank by P[y | u] = sum_k P[y | k] P[k | u] (paper, equation 9)."""
    K = min(n_components, *X.shape)
    return _fitted(MethodOfMoments(K, ranking="components", seed=seed, **settings).fit(X))


def fit_algorithm_1(X: Csr, seed: int, *, n_components: int = 100) -> Fitted:
    """Fit the paper's Algorithm 1 on binary rows; see `MethodOfMoments.algorithm_1`."""
    model = MethodOfMoments.algorithm_1(min(n_components, *X.shape), seed=seed)
    return _fitted(replace(model, rows="binary").fit(X))


def fit_three_moment(X: Csr, seed: int, *, last_days: Csr | None = None, **settings: Any) -> Fitted:
    """Rank by popularity, co-occurrences and components together (see `core.ranking`).

    The weights of the parts are those of the settings; without any there, they are chosen on a
    hidden part of X.
    """
    given = {name: settings.pop(name) for name in _WEIGHTS & settings.keys()}
    weights = replace(RankingWeights(), **given) if given else None
    model = _three_moment_model(X, seed, last_days=last_days, ranking_weights=weights, **settings)
    older, fitted = model.fitted.aged(X, last_days), _fitted(model)
    notes = fitted.notes | model.diagnostics["ranking_weights"]
    return Fitted(fitted.scores, notes, None if older is X else older)


def choose_three_moment(X: Csr, later: Csr, seed: int, **settings: Any) -> Settings:
    """Return the settings with weights of the parts chosen on what the users took later."""
    model = _three_moment_model(X, seed, later=later, **settings)
    given = {name: v for name, v in settings.items() if name not in ("last_days", "fixed_weights")}
    return {**given, **model.diagnostics["ranking_weights"]}


def _three_moment_model(
    X: Csr,
    seed: int,
    *,
    n_components: int = 100,
    lists: str = "new",
    last_days: Csr | None = None,
    later: Csr | None = None,
    **settings: Any,
) -> MethodOfMoments:
    """Fit the model. lists: what they may hold, items that are "new" to the user or "all"."""
    arguments = {**_EM, **settings, "ranking": "three-moment", "seed": seed}
    model = MethodOfMoments(min(n_components, *X.shape), **arguments)
    return model.fit(X, held_out=later, last_days=last_days, exclude_seen=lists == "new")


def _fitted(model: MethodOfMoments) -> Fitted:
    names = ("n_components", "negative_mass")
    return Fitted(model.scorer(), {name: model.diagnostics[name] for name in names})


_RULES: tuple[Settings, ...] = (
    {"personalization": "em", "em_steps": 5},
    {"personalization": "em", "em_steps": 2},
    {"personalization": "em", "em_steps": 10},
    {"personalization": "em", "em_steps": 5, "rows": "binary"},
    {"personalization": "tempered", "temperature": 0.3},
    {"personalization": "product"},
)
THREE_MOMENT = Method(
    "three-moment",
    "Three moments",
    fit_three_moment,
    ({"rows": "binary"}, {"rows": "log"}),
    size="n_components",
    lists="lists",
    choose=choose_three_moment,
    reads_days=True,
)
FORMS = (
    Method("mom-algorithm-1", "MoM (Algorithm 1)", fit_algorithm_1, size="n_components"),
    # The paper's plain sums leave nothing to choose but how a repeated item counts.
    Method(
        "mom-paper",
        "MoM (paper)",
        partial(fit_components, estimator="paper", personalization="product", rows="binary"),
        ({"rows": "binary"}, {"rows": "counts"}),
        size="n_components",
    ),
    # No logarithms of counts: distinct pairs and triples are of whole events.
    Method(
        "mom-unbiased",
        "MoM (unbiased)",
        partial(fit_components, estimator="unbiased", **_EM),
        _RULES,
        size="n_components",
    ),
    Method(
        "mom-balanced",
        "MoM (balanced)",
        partial(fit_components, estimator="balanced", **_EM),
        (*_RULES, {"personalization": "em", "em_steps": 5, "rows": "log"}),
        size="n_components",
    ),
    THREE_MOMENT,
)

# Each part of the score left out in turn, the weights of the others chosen anew.
_WITHOUT = {
    "popularity": {"popularity": 0.0},
    "pairs": {"pairs": 0.0},
    "ease": {"ease": 0.0},
    "low-pass": {"low_pass": 0.0},
    "components": {"components": 0.0},
    "own-items": {"own": 0.0},
    "trend": {"trend": 0.0},
    "ageing": {"history_half_life": NO_AGEING},
}
PARTS = tuple(
    replace(
        THREE_MOMENT,
        name=f"without-{part}",
        title=f"without {part}",
        fit=partial(fit_three_moment, fixed_weights=fixed),
        choose=partial(choose_three_moment, fixed_weights=fixed),
    )
    for part, fixed in _WITHOUT.items()
)
