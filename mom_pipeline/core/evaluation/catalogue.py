"""Coverage of the catalogue by lists, and their novelty."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.evaluation.metrics import CUTOFFS, checked_cutoffs
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr

_USERS_PER_BLOCK = 512


@dataclass(frozen=True)
class CatalogueUse:
    """Two figures at every cut-off, over all lists together.

    coverage: cut-off -> share of the catalogue that is in any list.
    novelty: cut-off -> mean over the listed items of -log2(share of users who have it), in bits.
    """

    cutoffs: tuple[int, ...]
    coverage: dict[int, float]
    novelty: dict[int, float]


def catalogue_use(ids: Array, train: Csr, cutoffs: Sequence[int] = CUTOFFS) -> CatalogueUse:
    """Return coverage and novelty of lists.

    ids: (N, n) positions, best first, -1 for no item.  train: (any, D); every item has one user.
    """
    cutoffs = checked_cutoffs(cutoffs)
    D = train.shape[1]
    ids = ids[:, : cutoffs[-1]]
    bits, length = _information(train), ids.shape[1]
    # Where the stretch of ranks ends that only the cut-offs from the c-th on reach.
    ends = np.minimum(cutoffs, length)
    starts = np.concatenate([[0], ends[:-1]])
    # One more column at the end, for "no item": the position -1 is the last.
    listed = np.zeros((len(cutoffs), D + 1), dtype=bool)

    def block(start: int) -> tuple[Array, Array]:
        rows = ids[start : start + _USERS_PER_BLOCK]
        _require_positions(rows, D)
        for c, (first, last) in enumerate(zip(starts, ends, strict=True)):
            listed[c, rows[:, first:last]] = True  # threads write nothing but the same True
        return (rows >= 0).sum(axis=0), bits.take(rows, mode="wrap").sum(axis=0)

    parts = map_blocks(block, range(0, len(ids), _USERS_PER_BLOCK))
    n_listed = np.cumsum(sum((n for n, _ in parts), np.zeros(length)))
    information = np.cumsum(sum((b for _, b in parts), np.zeros(length)))
    if length == 0 or n_listed[-1] == 0:
        raise InvalidInteractions("no list holds any item; there is nothing to measure")
    covered = np.logical_or.accumulate(listed[:, :D], axis=0).sum(axis=1) / D
    novelty = information[ends - 1] / n_listed[ends - 1]
    return CatalogueUse(
        cutoffs,
        dict(zip(cutoffs, covered.tolist(), strict=True)),
        dict(zip(cutoffs, novelty.tolist(), strict=True)),
    )


def _require_positions(ids: Array, n_items: int) -> None:
    if ids.size and not -1 <= ids.min() <= ids.max() < n_items:
        raise InvalidInteractions(
            f"expected item positions from 0 to {n_items - 1}, or -1, found "
            f"{ids.min()} to {ids.max()}; are lists and matrix of the same catalogue?"
        )


def _information(train: Csr) -> Array:
    """Return -log2(share of users who have the item), (D + 1,), and 0 for no item."""
    taken = train.astype(bool)
    taken.sum_duplicates()
    taken.eliminate_zeros()
    n_users = max(int((np.diff(taken.indptr) > 0).sum()), 1)
    item_users = np.bincount(taken.indices, minlength=train.shape[1])
    return np.append(-np.log2(np.maximum(item_users, 1) / n_users), 0.0)
