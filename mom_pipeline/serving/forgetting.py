"""Models in use, and those before them, without one user."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from mom_pipeline.core.types import Array, Csr
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
        rows = _without_rows(ranking.interactions, own)
        model = replace(model, pair_ranking=replace(ranking, interactions=rows))
    return replace(
        served,
        model=model,
        user_ids=served.user_ids[~own],
        histories=sparse.csr_array(served.histories[~own]),
    )


def _without_rows(X: Csr, own: Array) -> Csr:
    """Empty the rows of the same users: the pairs are counted from the rows of all of them."""
    if X.shape[0] != len(own):
        raise ValueError(f"the pairs are of {X.shape[0]} users, the histories of {len(own)}")
    kept = sparse.diags_array((~own).astype(X.dtype), format="csr")
    left = sparse.csr_array(kept @ X)
    left.eliminate_zeros()
    left.sort_indices()
    return left
