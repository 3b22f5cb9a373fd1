"""The latent classes of a data set: Algorithm 1 of the paper from the moments to (O, pi)."""

from dataclasses import dataclass, replace

import numpy as np

from mom_pipeline.core.algorithm.decomposition import (
    Decomposition,
    DecompositionName,
    decompose,
    match_components,
)
from mom_pipeline.core.algorithm.recovery import ProjectionName, Recovery, recover
from mom_pipeline.core.algorithm.whitening import Whitening, whitening_from
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.linear_algebra.eigenpairs import Eigenpairs, top_eigenpairs
from mom_pipeline.core.moments.passes import MomentsPass, TriplePass
from mom_pipeline.core.moments.sums import Estimator, MomentSums
from mom_pipeline.core.moments.users import Users
from mom_pipeline.core.progress import Stages
from mom_pipeline.core.types import Array, Float64


@dataclass(frozen=True)
class ClassSettings:
    """How the classes are found; see the modules of each stage for the meanings."""

    n_components: int
    estimator: Estimator
    decomposition: DecompositionName
    projection: ProjectionName
    tol: float
    max_passes: int


@dataclass(frozen=True)
class ClassFit:
    """Every stage of Algorithm 1 on one data set."""

    sums: MomentSums
    item_scale: Float64
    eigenpairs: Eigenpairs
    whitening: Whitening
    decomposition: Decomposition
    recovery: Recovery


def fit_classes(
    users: Users,
    settings: ClassSettings,
    rng: np.random.Generator,
    stages: Stages,
    *,
    dtype: type[np.floating],
    warm_start: Array | None = None,
) -> ClassFit:
    """Run Algorithm 1, steps 1 to 8.

    warm_start: (D, any) eigenvectors of an earlier fit to begin with.
    """
    estimator, K = settings.estimator, settings.n_components
    with stages.stage("moments"):
        sums = users.add_up(MomentsPass(estimator))
        if sums.triple_weight <= 0:
            raise InvalidInteractions(
                f"the estimator {estimator.name!r} needs users with at least 3 events each, "
                "found none; use estimator='paper' or 'balanced', or add data"
            )
        M2 = users.second_moment(sums, estimator, dtype)
    with stages.stage("whitening"):
        eigenpairs = top_eigenpairs(
            M2,
            K,
            rng,
            warm_start=warm_start,
            tol=settings.tol,
            max_passes=settings.max_passes,
        )
        whitening = whitening_from(eigenpairs, K)
    with stages.stage("tensor"):
        to_whitened = whitening.matrix * M2.item_scale[:, None].astype(dtype)
        T = users.add_up(TriplePass(to_whitened, estimator)) / sums.triple_weight
    with stages.stage("decomposition"):
        decomposition = decompose(T, rng, method=settings.decomposition)
    with stages.stage("recovery"):
        recovery = recover(whitening, decomposition, M2.item_scale, projection=settings.projection)
    return ClassFit(sums, M2.item_scale, eigenpairs, whitening, decomposition, recovery)


def in_order_of(fit: ClassFit, earlier_item_probs: Array) -> ClassFit:
    """Give each component the place of the earlier component that it agrees with best."""
    order = match_components(fit.recovery.item_probs, earlier_item_probs)
    return replace(
        fit,
        decomposition=replace(
            fit.decomposition,
            lambdas=fit.decomposition.lambdas[order],
            vectors=fit.decomposition.vectors[:, order],
        ),
        recovery=replace(
            fit.recovery,
            item_probs=fit.recovery.item_probs[:, order],
            weights=fit.recovery.weights[order],
        ),
    )
