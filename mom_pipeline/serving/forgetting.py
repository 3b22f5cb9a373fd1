"""Models in use, and those before them, without one user."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.core.types import Csr
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import ServedModel


def forget_in_models(registry: ModelRegistry, user_id: str) -> int:
    """Take a user out of every version: the id, the history, and the row behind the pairs.

    Classes and weights stay as they were fitted: they are sums over everyone, and name nobody.
    Returns how many versions were replaced or, where damaged, removed.
    """
    if not registry.root.is_dir():
        return 0
    return len(registry.rewrite(lambda served: without_user(served, user_id)))


def without_user(served: ServedModel, user_id: str) -> ServedModel | None:
    """Return the model without a user; None when it does not know the user."""
    own = np.array([str(user) == user_id for user in served.user_ids], dtype=bool)
    if not own.any():
        return None
    model, ranking = served.model, served.model.pair_ranking
    if ranking is not None:
        rows = ranking.interactions
        for history in np.flatnonzero(own):
            rows = _without_one(rows, served.histories[[history]])
        model = replace(model, pair_ranking=replace(ranking, interactions=rows))
    return replace(
        served,
        model=model,
        user_ids=served.user_ids[~own],
        histories=sparse.csr_array(served.histories[~own]),
    )


def _without_one(X: Csr, history: Csr) -> Csr:
    """Empty one row that equals a history, (1, D).

    The rows behind the pairs have no ids. They only enter as sums, so of several equal rows it
    does not matter which one goes.
    """
    items = history.indices[np.argsort(history.indices)]
    sizes = np.diff(X.indptr)
    for row in np.flatnonzero(sizes == len(items)):
        entries = slice(X.indptr[row], X.indptr[row + 1])
        if not np.array_equal(np.sort(X.indices[entries]), items):
            continue
        if np.array_equal(X[[row]].toarray(), history.toarray()):
            kept = np.ones(X.nnz, dtype=bool)
            kept[entries] = False
            indptr = X.indptr - np.where(np.arange(len(X.indptr)) > row, len(items), 0)
            return sparse.csr_array((X.data[kept], X.indices[kept], indptr), shape=X.shape)
    raise DamagedModel("the rows behind the pairs do not hold the history of a user")
