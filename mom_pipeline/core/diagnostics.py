"""What a fit found out about itself, as plain numbers, lists and texts."""

from dataclasses import asdict
from typing import Any

from mom_pipeline.core.algorithm.decompose import ClassFit
from mom_pipeline.core.evaluation.theorem1 import theorem_1
from mom_pipeline.core.ranking.choose import Choice
from mom_pipeline.core.ranking.score import RankingWeights


def describe_fit(
    fit: ClassFit,
    seconds: dict[str, float],
    *,
    delta: float,
    smoothing: float,
    ranking_weights: RankingWeights | None,
    choice: Choice | None,
) -> dict[str, Any]:
    """Return the diagnostics of a fit, with Theorem 1's bounds at the given delta."""
    whitening, decomposition, recovery = fit.whitening, fit.decomposition, fit.recovery
    bounds = theorem_1(
        fit.sums.n_users,
        fit.sums.mean_sizes,
        whitening.eigenvalues,
        recovery.weights,
        delta=delta,
    )
    warnings = list(bounds.warnings)
    if whitening.n_components < whitening.requested:
        warnings.append(
            f"the second moment supports {whitening.n_components} components, "
            f"{whitening.requested} were asked for: K was lowered"
        )
    return {
        "n_users": fit.sums.n_users,
        "n_items": len(fit.item_scale),
        "n_components": whitening.n_components,
        "n_components_requested": whitening.requested,
        "eigenvalues": whitening.eigenvalues.tolist(),
        "passes": whitening.passes,
        "whitening_residual": whitening.residual,
        "lambdas": decomposition.lambdas.tolist(),
        "decomposition_residual": decomposition.residual,
        "negative_mass": recovery.negative_mass,
        "weight_sum": recovery.weight_sum,
        "smoothing": smoothing,
        "bounds": asdict(bounds),
        "ranking_weights": None if ranking_weights is None else asdict(ranking_weights),
        "ranking_choice": None if choice is None else asdict(choice),
        "seconds": dict(seconds),
        "warnings": warnings,
    }
