"""Items that came after the anchor: what the span cannot say about them.

An eigenvector u of M2, of eigenvalue s, has at such an item y the entry

    s u_y = sum over known items z of M2_yz u_z  +  M2_yy u_y  +  (other new items)

The power step of `lifted` is the first part alone. The second is the item's own share of M2. It
is small for most items, but for one that is popular on its first day it was a seventh of its
probability, and every list holds such an item.
"""

import numpy as np

from mom_pipeline.core.moments.anchored import AnchoredMoments
from mom_pipeline.core.moments.sums import column_sums, events_per_user
from mom_pipeline.core.types import Array, Csr, Float64

# An item that makes up more than half of an eigenvalue is a direction of its own: a rebuild's.
_LARGEST_SHARE = 0.5


def with_own_share(
    mu: Array, X: Csr, moments: AnchoredMoments, eigenvalues: Float64, vectors: Float64
) -> Array:
    """Return mu with the rows of the new items divided by 1 - M2_yy / s, per eigenvector.

    mu: (D, K), U diag(s)^(1/2) V as `lifted` sees it.  eigenvalues: s, (K,).  vectors: V, (K, K).
    """
    items = _new_items(moments)
    if not len(items):
        return mu
    share = _own_pairs(X, moments, items)[:, None] / eigenvalues
    to_classes = np.sqrt(eigenvalues)[:, None] * vectors
    rows = np.linalg.solve(to_classes.T, mu[items].T.astype(np.float64)).T
    mu[items] = (rows / (1 - np.minimum(share, _LARGEST_SHARE))) @ to_classes
    return mu


def _new_items(moments: AnchoredMoments) -> Array:
    """Return the items that have users today and no row in the anchor's basis."""
    return np.flatnonzero((moments.sums.item_users > 0) & ~moments.anchor.known)


def _own_pairs(X: Csr, moments: AnchoredMoments, items: Array) -> Float64:
    """Return M2_yy of some items, in the scaling that a rebuild today would give them."""
    estimator, sums = moments.anchor.estimator, moments.sums
    a, _ = estimator.term_weights(events_per_user(X), 2)
    taken = X[:, items]
    taken.data = np.square(taken.data, dtype=np.float64)
    own = column_sums(taken, a)
    if estimator.distinct:
        own = own - sums.pair_diagonal[items]
    scale = estimator.item_scale(sums.item_users[items])
    return np.asarray(np.maximum(own, 0) * scale**2 / sums.pair_weight, dtype=np.float64)
