"""The method of moments itself, in the five forms that a comparison shows.

A form states only what differs from the defaults of `MethodOfMoments`.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from mom_pipeline.comparison.methods.interface import (
    Fitted,
    Method,
    Setting,
    Settings,
    filled,
)
from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.types import Csr

Fit = Callable[[Csr, Settings, int], Fitted]

# The settings of `MethodOfMoments` that a method leaves open, with their defaults.
_OPEN = (
    *("n_components", "personalization", "temperature", "em_steps", "smoothing"),
    *("decomposition", "projection"),
)
OPEN_SETTINGS: dict[str, Setting] = {name: getattr(MethodOfMoments, name) for name in _OPEN}
# Names of the ranking's weights: any of them given, the fit does not choose them itself.
WEIGHTS: dict[str, Setting] = asdict(RankingWeights())
# What lists may hold: items that are new to the user, or all.
LISTS = ("new", "all")


def component_ranking(defaults: Settings, **fixed: Any) -> Fit:
    """Return a fit that ranks by P[y | u] = sum_k P[y | k] P[k | u] (paper, equation 9).

    defaults: what differs from `OPEN_SETTINGS`, and `values`.
    fixed: settings of `MethodOfMoments` that belong to the method and are not for choice.
    """
    known = {name: v for name, v in {**OPEN_SETTINGS, **defaults}.items() if name not in fixed}

    def fit(X: Csr, settings: Settings, seed: int) -> Fitted:
        chosen = filled(settings, known)
        size = {"rows": chosen.pop("values"), **_size(settings, chosen, X)}
        model = MethodOfMoments(
            **{**chosen, **fixed, **size, "ranking": "components", "seed": seed}
        )
        return _fitted(model.fit(X))

    return fit


def fit_algorithm_1(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Fit the paper's Algorithm 1 to the letter; see `MethodOfMoments.algorithm_1`."""
    chosen = filled(settings, {"n_components": OPEN_SETTINGS["n_components"], "values": "binary"})
    model = MethodOfMoments.algorithm_1(**_size(settings, chosen, X), seed=seed)
    rows: Any = chosen["values"]
    return _fitted(replace(model, rows=rows).fit(X))


def fit_three_moment(
    X: Csr, settings: Settings, seed: int, last_days: Csr | None = None, **fixed: Any
) -> Fitted:
    """Rank by popularity, pairs and components together (see `core.ranking`).

    The weights of the parts are those of the settings (see `choose_three_moment`); without
    any there, they are chosen on a hidden part of X, for lists of what `lists` says.
    fixed: settings of `MethodOfMoments` that belong to the method, such as `fixed_weights`.
    """
    weights = None
    if set(settings) & set(WEIGHTS):
        weights = RankingWeights(**{n: settings.get(n, w) for n, w in WEIGHTS.items()})  # type: ignore[arg-type]
    own = {name: value for name, value in settings.items() if name not in WEIGHTS}
    model = _three_moment_model(X, last_days, own, seed, ranking_weights=weights, **fixed)
    fitted = _fitted(model)
    notes = fitted.notes | model.diagnostics["ranking_weights"]
    older = model.fitted.aged(X, last_days)
    return Fitted(fitted.scores, notes, None if older is X else older)


def choose_three_moment(
    X: Csr,
    later: Csr,
    settings: Settings,
    seed: int,
    last_days: Csr | None = None,
    **fixed: Any,
) -> Settings:
    """Return the settings with weights of the parts chosen on what the users took later."""
    model = _three_moment_model(X, last_days, settings, seed, later, **fixed)
    return {**settings, **model.diagnostics["ranking_weights"]}


def _three_moment_model(
    X: Csr,
    last_days: Csr | None,
    settings: Settings,
    seed: int,
    later: Csr | None = None,
    **fixed: Any,
) -> MethodOfMoments:
    chosen = filled(settings, {**OPEN_SETTINGS, **_EM, "lists": "new"})
    rows, lists = chosen.pop("values"), chosen.pop("lists")
    if lists not in LISTS:
        raise InvalidSetting(f"lists must be one of {', '.join(LISTS)}, found {lists!r}")
    arguments: dict[str, Any] = {**chosen, **fixed, **_size(settings, chosen, X), "rows": rows}
    model = MethodOfMoments(**arguments, ranking="three-moment", seed=seed)
    return model.fit(X, held_out=later, last_days=last_days, exclude_seen=lists == "new")


def _size(given: Settings, chosen: Settings, X: Csr) -> dict[str, Any]:
    """Return K, which shrinks to the data unless it was given."""
    K = int(chosen["n_components"])
    return {"n_components": K if "n_components" in given else min(K, *X.shape)}


def _fitted(model: MethodOfMoments) -> Fitted:
    names = ("n_components", "negative_mass")
    return Fitted(model.scorer(), {name: model.diagnostics[name] for name in names})


_EM: Settings = {"personalization": "em", "values": "counts"}
_RULES: tuple[Settings, ...] = (
    {"personalization": "em", "em_steps": 5},
    {"personalization": "em", "em_steps": 2},
    {"personalization": "em", "em_steps": 10},
    {"personalization": "em", "em_steps": 5, "values": "binary"},
    {"personalization": "tempered", "temperature": 0.3},
    {"personalization": "product"},
)
MOM_ALGORITHM_1 = Method(
    "mom-algorithm-1", "MoM (Algorithm 1)", fit_algorithm_1, size="n_components"
)
# The paper's plain sums leave nothing to choose but how a repeated item counts.
MOM_PAPER = Method(
    "mom-paper",
    "MoM (paper)",
    component_ranking({"values": "binary"}, estimator="paper", personalization="product"),
    ({"values": "binary"}, {"values": "counts"}),
    size="n_components",
)
# No logarithms of counts: distinct pairs and triples are of whole events.
MOM_UNBIASED = Method(
    "mom-unbiased",
    "MoM (unbiased)",
    component_ranking(_EM, estimator="unbiased"),
    _RULES,
    size="n_components",
)
MOM_BALANCED = Method(
    "mom-balanced",
    "MoM (balanced)",
    component_ranking(_EM, estimator="balanced"),
    (*_RULES[:3], {"personalization": "em", "em_steps": 5, "values": "log"}, *_RULES[3:]),
    size="n_components",
)
THREE_MOMENT = Method(
    "three-moment",
    "Three moments",
    fit_three_moment,
    ({"values": "binary"}, {"values": "log"}),
    size="n_components",
    lists="lists",
    choose=choose_three_moment,
    reads_days=True,
)
