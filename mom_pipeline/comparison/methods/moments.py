"""The method of moments itself, in the four forms that a comparison shows."""

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from mom_pipeline.comparison.methods.interface import Fitted, Method, Setting, Settings
from mom_pipeline.comparison.methods.options import filled, weighted
from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.types import Array, Csr

Fit = Callable[[Csr, Settings, int], Fitted]

_MODEL: dict[str, Any] = {field.name: field.default for field in fields(MethodOfMoments)}
N_COMPONENTS: int = _MODEL["n_components"]
# Names of the ranking's weights: any of them given, the fit does not choose them itself.
WEIGHTS: dict[str, Setting] = asdict(RankingWeights())
# What lists may hold: items that are new to the user, or all.
LISTS = ("new", "all")

_SHARED = ("n_components", "smoothing", "decomposition", "projection")
DEFAULTS: dict[str, Setting] = {
    **{name: _MODEL[name] for name in (*_SHARED, "personalization", "temperature", "em_steps")},
    "values": "counts",
}
# Deviation: a share of popularity in O before its logarithm is taken. Clipping leaves zeros in
# O, and without it one of them would rule a class out for a user.
PAPER_DEFAULTS: dict[str, Setting] = {
    **{name: _MODEL[name] for name in _SHARED},
    "values": "binary",
}
THREE_MOMENT_DEFAULTS: dict[str, Setting] = {**DEFAULTS, "lists": "new"}


def class_ranking(estimator: str, defaults: Settings, **fixed: Any) -> Fit:
    """Return a fit that ranks by P[y | u] = sum_k P[y | k] P[k | u] (paper, equation 9).

    fixed: settings of `MethodOfMoments` that belong to the method and are not for choice.
    """

    def fit(X: Csr, settings: Settings, seed: int) -> Fitted:
        chosen = filled(settings, defaults)
        model = fit_moments(X, chosen, settings, seed, estimator=estimator, **fixed)
        score = model.scorer("classes")

        def scores(rows: Csr) -> Array:
            return score(weighted(rows, chosen["values"]))

        return Fitted(scores, _notes(model))

    return fit


def fit_three_moment(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Rank by popularity, pairs and classes together (see `core.ranking`).

    The weights of the parts are those of the settings (see `choose_three_moment`); without
    any there, they are chosen on a hidden part of X, for lists of what `lists` says.
    """
    chosen = filled(settings, {**THREE_MOMENT_DEFAULTS, **WEIGHTS})
    own = {name: chosen.pop(name) for name in WEIGHTS}
    weights = RankingWeights(**own) if set(settings) & set(WEIGHTS) else None  # type: ignore[arg-type]
    model = fit_moments(X, chosen, settings, seed, **_THREE_MOMENT, ranking_weights=weights)
    score = model.scorer("three-moment")

    def scores(rows: Csr) -> Array:
        return score(weighted(rows, chosen["values"]))

    return Fitted(scores, {**_notes(model), **model.diagnostics["ranking_weights"]})


def choose_three_moment(X: Csr, later: Csr, settings: Settings, seed: int) -> Settings:
    """Return the settings with weights of the parts chosen on what the users took later."""
    chosen = filled(settings, THREE_MOMENT_DEFAULTS)
    held_out = weighted(later, chosen["values"])
    model = fit_moments(X, chosen, settings, seed, held_out, **_THREE_MOMENT)
    return {**settings, **model.diagnostics["ranking_weights"]}


def fit_moments(
    X: Csr,
    chosen: dict[str, Setting],
    given: Settings,
    seed: int,
    held_out: Csr | None = None,
    **fixed: Any,
) -> MethodOfMoments:
    """Fit with the chosen settings; K shrinks to the data unless it was given."""
    arguments: dict[str, Any] = {"ranking": "classes", **chosen, **fixed, "seed": seed}
    values, lists = arguments.pop("values"), arguments.pop("lists", "new")
    if lists not in LISTS:
        raise InvalidSetting(f"lists must be one of {', '.join(LISTS)}, found {lists!r}")
    if "n_components" not in given:
        arguments["n_components"] = min(N_COMPONENTS, *X.shape)
    model = MethodOfMoments(**arguments)
    return model.fit(weighted(X, values), held_out=held_out, exclude_seen=lists == "new")


def _notes(model: MethodOfMoments) -> dict[str, Any]:
    return {name: model.diagnostics[name] for name in ("n_components", "negative_mass")}


_THREE_MOMENT: dict[str, Any] = {"estimator": "balanced", "ranking": "three-moment"}
# Algorithm 1 leaves nothing to choose but how a repeated item counts.
MOM_PAPER = Method(
    "mom-paper",
    "MoM (paper)",
    class_ranking("paper", PAPER_DEFAULTS, personalization="product"),
    ({"values": "binary"}, {"values": "counts"}),
)
_RULES: tuple[Settings, ...] = (
    {"personalization": "em", "em_steps": 5},
    {"personalization": "em", "em_steps": 2},
    {"personalization": "em", "em_steps": 10},
    {"personalization": "em", "em_steps": 5, "values": "log"},
    {"personalization": "em", "em_steps": 5, "values": "binary"},
    {"personalization": "tempered", "temperature": 0.3},
    {"personalization": "product"},
)
MOM_UNBIASED = Method("mom-unbiased", "MoM (unbiased)", class_ranking("unbiased", DEFAULTS), _RULES)
MOM_BALANCED = Method("mom-balanced", "MoM (balanced)", class_ranking("balanced", DEFAULTS), _RULES)
THREE_MOMENT = Method(
    "three-moment",
    "Three moments",
    fit_three_moment,
    ({"values": "log"}, {"values": "counts"}, {"values": "binary"}),
    lists="lists",
    choose=choose_three_moment,
)
