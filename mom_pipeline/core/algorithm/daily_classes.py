"""One day of the model: from its sums to the whitening, the tensor and (O, pi).

Everything happens inside the span of the anchor's basis, and starts from the anchor's own
components: equal sums and an equal anchor give equal classes.
"""

from dataclasses import dataclass, replace

import numpy as np

from mom_pipeline.core.algorithm.decomposition import Decomposition, decompose_simultaneously
from mom_pipeline.core.algorithm.decomposition import match_components as match
from mom_pipeline.core.algorithm.new_items import with_own_share
from mom_pipeline.core.algorithm.recovery import ProjectionName, Recovery, recover_from
from mom_pipeline.core.algorithm.whitening import whitening_from
from mom_pipeline.core.errors import InvalidInteractions, RankTooLow
from mom_pipeline.core.linear_algebra.eigenpairs import Eigenpairs
from mom_pipeline.core.moments.anchored import AnchoredMoments
from mom_pipeline.core.moments.daily import with_rows
from mom_pipeline.core.moments.triples import transformed
from mom_pipeline.core.threads import small_work
from mom_pipeline.core.types import Array, Csr, Float64

# Decompositions of equal tensors must agree to 1e-6 from any rounding of them.
_SWEEP_TOLERANCE = 1e-14
# From nowhere, and from the components of the anchor's day, which are all but right already.
_COLD_SWEEPS = 200
_WARM_SWEEPS = 30


@dataclass(frozen=True)
class SpanWhitening:
    """Whitening inside the span of the anchor's basis U:  W = U F.

    factors: F = E diag(s)^(-1/2), (K', K).  spectrum: all K' eigenvalues of H, largest first.
    """

    factors: Float64
    spectrum: Float64
    requested: int

    @property
    def n_components(self) -> int:
        """Return K."""
        return int(self.factors.shape[1])

    @property
    def eigenvalues(self) -> Float64:
        """Return the K eigenvalues that are whitened."""
        return self.spectrum[: self.n_components]


def whiten_in_span(moments: AnchoredMoments, n_components: int) -> SpanWhitening:
    """Whiten H = E diag(s) E.T. The largest entry of every column of E is positive, so that
    equal moments give equal signs.
    """
    if moments.sums.pair_weight <= 0 or moments.sums.triple_weight <= 0:
        raise InvalidInteractions("no user has the 3 events that a triple needs; add days")
    H = (moments.pairs + moments.pairs.T) / 2 / moments.sums.pair_weight
    if not np.isfinite(H).all():
        raise RankTooLow("the second moment is not finite; compute this day in full")
    values, E = np.linalg.eigh(H)
    values, E = values[::-1], E[:, ::-1]
    E = E * np.sign(E[np.argmax(np.abs(E), axis=0), np.arange(len(E))])
    kept = whitening_from(Eigenpairs(values, E, passes=0, residual=0.0), n_components)
    return SpanWhitening(kept.matrix, values, n_components)


def whitening_error(X: Csr, moments: AnchoredMoments, whitening: SpanWhitening) -> float:
    """Return ||W.T M2 W - I||, with M2 from the rows themselves and not from the sums."""
    F = whitening.factors
    with small_work(X.nnz):
        H = moments.operator(X).seen_through(moments.anchor.basis)
        return float(np.linalg.norm(F.T @ H @ F - np.eye(F.shape[1])))


def lifted(X: Csr, moments: AnchoredMoments, directions: Float64) -> Array:
    """Return M2 W v_k of every class, (D, K), with M2 from the rows: one pass over X.

        mu_k = lambda_k M2 W v_k,     for  M2 = sum_k pi_k mu_k mu_k.T,  v_k = pi_k^(1/2) W.T mu_k

    directions: F v_k, (K', K), so that W v_k = U F v_k.
    Where the span is invariant, as on the anchor's own day, this is U diag(s)^(1/2) v_k, inside
    the span. Later it is one power step beyond: an item that came after the anchor has no row
    in U, but its pairs with the other items tell its class (its pairs with itself: `new_items`).
    """
    basis = moments.anchor.basis
    with small_work(X.nnz):
        return moments.operator(X).apply(basis @ directions.astype(basis.dtype))


def tensor_in_span(moments: AnchoredMoments, whitening: SpanWhitening) -> Float64:
    """Return the whitened third moment, T_B(F, F, F), (K, K, K)."""
    return transformed(moments.triples, whitening.factors) / moments.sums.triple_weight


def symmetry_error(T: Float64) -> float:
    """Return how far T is from its transposes, relative to its norm."""
    scale = max(float(np.linalg.norm(T)), np.finfo(np.float64).tiny)
    orders = ((1, 0, 2), (0, 2, 1), (2, 1, 0))
    return max(float(np.linalg.norm(T - T.transpose(order))) for order in orders) / scale


@dataclass(frozen=True)
class DayClasses:
    """The classes of a day. Component k is the same class as on the day of the anchor.

    span_components: (K', K) mu_k in the coordinates of the anchor's basis, E diag(s)^(1/2) v_k.
    anchor_components: those of the anchor's day, where every later day starts from.
    """

    decomposition: Decomposition
    recovery: Recovery
    span_components: Float64
    anchor_components: Float64


def decompose_day(
    X: Csr,
    moments: AnchoredMoments,
    whitening: SpanWhitening,
    T: Float64,
    projection: ProjectionName,
    seed: int,
    *,
    anchor_components: Float64 | None = None,
    earlier_item_probs: Array | None = None,
) -> DayClasses:
    """Decompose the tensor and recover (O, pi).

    X: (N, D) today's rows, for today's items (see `lifted`).
    anchor_components: warm start and order of the components. It is the anchor's day and not
    yesterday that a day starts from: so the result does not depend on the days in between.
    earlier_item_probs: on the anchor's own day, the classes whose order is to be kept.
    """
    F, anchor = whitening.factors, moments.anchor
    found = _decomposed(T, F, anchor_components, np.random.default_rng(seed))
    components = F * whitening.eigenvalues @ found.vectors
    if anchor_components is not None:
        found, components = _in_order(found, components, match(components, anchor_components))
    mu = lifted(X, moments, F @ found.vectors)
    mu = with_own_share(mu, X, moments, whitening.eigenvalues, found.vectors)
    recovery = recover_from(mu, found.lambdas, anchor.item_scale, projection)
    if anchor_components is None and earlier_item_probs is not None:
        earlier = with_rows(earlier_item_probs, len(anchor.item_scale))
        order = match(recovery.item_probs, earlier)
        found, components = _in_order(found, components, order)
        recovery = replace(
            recovery,
            item_probs=recovery.item_probs[:, order],
            weights=recovery.weights[order],
        )
    anchored = components if anchor_components is None else anchor_components
    return DayClasses(found, recovery, components, anchored)


def _decomposed(
    T: Float64, F: Float64, anchor_components: Float64 | None, rng: np.random.Generator
) -> Decomposition:
    """Decompose with a fixed number of sweeps: where to stop must not hang on rounding."""
    sweeps = _COLD_SWEEPS if anchor_components is None else _WARM_SWEEPS
    return decompose_simultaneously(
        T,
        rng,
        warm_start=None if anchor_components is None else F.T @ anchor_components,
        tol=_SWEEP_TOLERANCE,
        max_sweeps=sweeps,
        patience=sweeps,
    )


def _in_order(
    found: Decomposition, components: Float64, order: Array
) -> tuple[Decomposition, Float64]:
    """Return both with component order[k] in place k."""
    lambdas, vectors = found.lambdas[order], found.vectors[:, order]
    return replace(found, lambdas=lambdas, vectors=vectors), components[:, order]


def drift(item_probs: Array, earlier: Array) -> Float64:
    """Return the total variation distance of every component from the earlier one, (K,).

    1/2 sum_y |O_yk - O'_yk|; a component without a counterpart has drifted by 1.
    """
    K, D = item_probs.shape[1], max(len(item_probs), len(earlier))
    now, before = with_rows(item_probs, D), with_rows(earlier, D)
    shared = min(K, before.shape[1])
    moved = np.ones(K)
    moved[:shared] = np.abs(now[:, :shared] - before[:, :shared]).sum(axis=0) / 2
    return moved


def popularity_drift(item_events: Array, earlier: Array) -> float:
    """Return the total variation distance between the popularities of two days."""

    def shares(events: Array) -> Array:
        return np.asarray(events / max(events.sum(), np.finfo(np.float64).tiny))[:, None]

    return float(drift(shares(item_events), shares(earlier))[0])
