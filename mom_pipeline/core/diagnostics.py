"""Diagnostics of a fit, as plain numbers, lists and texts."""

from dataclasses import asdict
from typing import Any

from mom_pipeline.core.algorithm.decompose import ComponentFit
from mom_pipeline.core.evaluation.theorem1 import bounds_of_fit, few_users
from mom_pipeline.core.ranking.choose import WeightChoice
from mom_pipeline.core.ranking.score import RankingWeights


def describe_fit(
    fit: ComponentFit,
    seconds: dict[str, float],
    *,
    delta: float,
    smoothing: float,
    ranking_weights: RankingWeights | None,
    choice: WeightChoice | None,
) -> dict[str, Any]:
    """Return the diagnostics of a fit, with Theorem 1's bounds where it is about the model."""
    components, sums = fit.components, fit.sums.first
    whitening, recovery = components.whitening, components.recovery
    bounds = bounds_of_fit(fit, delta)
    K = whitening.n_components
    warnings = few_users(sums.n_users, K) if bounds is None else list(bounds.warnings)
    if whitening.n_components < whitening.requested:
        warnings.append(
            f"the second moment supports {whitening.n_components} components, "
            f"{whitening.requested} were asked for: K was lowered"
        )
    return {
        "n_users": sums.n_users,
        "n_items": fit.anchor.n_items,
        "n_components": whitening.n_components,
        "n_components_requested": whitening.requested,
        "eigenvalues": whitening.eigenvalues.tolist(),
        "passes": fit.anchor.passes,
        "whitening_residual": fit.anchor.residual,
        "lambdas": components.decomposition.lambdas.tolist(),
        "decomposition_residual": components.decomposition.residual,
        "negative_mass": recovery.negative_mass,
        "weight_sum": recovery.weight_sum,
        "smoothing": smoothing,
        "bounds": None if bounds is None else asdict(bounds),
        "ranking_weights": None if ranking_weights is None else asdict(ranking_weights),
        "ranking_choice": None if choice is None else asdict(choice),
        "seconds": dict(seconds),
        "warnings": warnings,
    }
