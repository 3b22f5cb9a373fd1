"""Item-kNN: items similar to those of the history, by the cosine of their columns."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.methods.interface import (
    Fitted,
    Method,
    Setting,
    Settings,
    filled,
    in_range,
    weighted,
    whole,
)
from mom_pipeline.core.interactions import with_narrow_indices
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr

# Pairs of one block of items before its neighbours are picked: some 100 MB.
_PAIRS_PER_BLOCK = 4_000_000

DEFAULTS: dict[str, Setting] = {
    "neighbours": 100,
    "shrinkage": 0.0,
    "history_exponent": 0.5,
    "candidate_exponent": 0.5,
    "values": "binary",
}


def fit_item_knn(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Score a candidate by its similarity to the items of the history.

        score_y = sum_h x_h s_hy,   s_hy = (X_h . X_y) / (|X_h|^2a |X_y|^2b + shrinkage)

    with h among the k items nearest to y. The cosine is a = b = 1/2 (`history_exponent` and
    `candidate_exponent`). X: (N, D). Nothing is random; the seed is not used.
    """
    chosen = filled(settings, DEFAULTS)
    X = weighted(X, chosen["values"])
    neighbours = similarities(
        X,
        whole("neighbours", chosen["neighbours"]),
        shrinkage=in_range("shrinkage", chosen["shrinkage"], 0),
        history_exponent=in_range("history_exponent", chosen["history_exponent"], 0),
        candidate_exponent=in_range("candidate_exponent", chosen["candidate_exponent"], 0),
    )

    def scores(rows: Csr) -> Array:
        return np.asarray((weighted(rows, chosen["values"]) @ neighbours).toarray())

    return Fitted(scores, {"similarities_kept": neighbours.nnz})


def similarities(
    X: Csr, k: int, *, shrinkage: float, history_exponent: float, candidate_exponent: float
) -> Csr:
    """Return s_hy, (D, D): in column y the k items h most similar to y, never y itself.

    Equal similarities go to the lower position. Items are taken in blocks, so that memory grows
    with what is kept and not with all pairs.
    """
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel()
    of_history = np.maximum(squares, 1e-300) ** history_exponent
    of_candidate = np.maximum(squares, 1e-300) ** candidate_exponent
    items_x_users = X.T.tocsr()

    def block(items: slice) -> Csr:
        pairs = with_narrow_indices((items_x_users[items] @ X).tocsr())
        candidates = np.repeat(np.arange(items.start, items.stop), np.diff(pairs.indptr))
        pairs.data /= of_history[pairs.indices] * of_candidate[candidates] + shrinkage
        pairs.data[pairs.indices == candidates] = 0.0
        return largest_of_rows(pairs, k)

    rows = map_blocks(block, _item_blocks(items_x_users, np.diff(X.indptr)))
    by_candidate = sparse.csr_array(sparse.vstack(rows, format="csr"))
    return with_narrow_indices(by_candidate.T.tocsr())


def largest_of_rows(S: Csr, k: int) -> Csr:
    """Keep the k largest positive entries of every row; ties go to the lower position."""
    kept = S.data > 0
    for row in np.flatnonzero(np.diff(S.indptr) > k):
        entries = slice(S.indptr[row], S.indptr[row + 1])
        kept[entries] &= _largest(S.data[entries], S.indices[entries], k)
    rows = np.repeat(np.arange(S.shape[0]), np.diff(S.indptr))
    return sparse.csr_array((S.data[kept], (rows[kept], S.indices[kept])), shape=S.shape)


def _largest(values: Array, positions: Array, k: int) -> Array:
    """Mark the k largest of more than k values: a partition is far quicker than a sort."""
    threshold = np.partition(values, -k)[-k]
    marked = values > threshold
    tied = np.flatnonzero(values == threshold)
    tied = tied[np.argsort(positions[tied])]
    marked[tied[: k - marked.sum()]] = True
    return np.asarray(marked)


def _item_blocks(items_x_users: Csr, user_sizes: Array) -> Iterator[slice]:
    """Cut the items into runs that meet some `_PAIRS_PER_BLOCK` pairs, at least one item each."""
    met = np.concatenate([[0], np.cumsum(user_sizes[items_x_users.indices])])
    until = met[items_x_users.indptr]
    start, D = 0, items_x_users.shape[0]
    while start < D:
        stop = int(np.searchsorted(until, until[start] + _PAIRS_PER_BLOCK, side="right")) - 1
        stop = min(max(stop, start + 1), D)
        yield slice(start, stop)
        start = stop


ITEM_KNN = Method(
    "item-knn",
    "Item-kNN",
    fit_item_knn,
    (
        {"neighbours": 100},
        {"neighbours": 20},
        {"neighbours": 50},
        {"neighbours": 200},
        {"neighbours": 500},
        {"neighbours": 50, "shrinkage": 30.0},
        {"neighbours": 100, "shrinkage": 10.0},
        {"neighbours": 100, "history_exponent": 0.7},
    ),
)
