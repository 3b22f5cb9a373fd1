"""Why an item is in a list: the item of the history, or the class, that contributed most.

A score is a sum: of what the items of the history add through pairs, their inverse and their
low-pass part; of what the classes add; and of popularity, which is nobody's reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.ranking.explain import by_history
from mom_pipeline.core.ranking.score import CLASSES
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

POPULAR, COMPONENT, ITEM = 0, 1, 2
_USERS_PER_BLOCK = 512


@dataclass(frozen=True)
class Reasons:
    """What contributed most to each score of N users' lists.

    kinds: (N, n), one of POPULAR, COMPONENT, ITEM; POPULAR where neither of the others added
    anything.  causes: (N, n), the number of the class (from 0) or the position of the item; -1
    for POPULAR.  terms: (N, n), what the cause added to the score.
    """

    kinds: Array
    causes: Array
    terms: Float64


def strongest(
    model: FittedModel, X: Csr, P: Array, items: Array, factors: Mapping[str, Array]
) -> Reasons:
    """Find the largest term of every listed item's score.

    X: (N, D).  P: (N, K).  items: (N, n), -1 where there is none.
    factors: by what each part of a user's scores was multiplied, name -> (N,).
    """
    causes = np.full((3, *items.shape), -1, dtype=np.int64)
    terms = np.zeros((3, *items.shape))

    def block(start: int) -> None:
        users = slice(start, start + _USERS_PER_BLOCK)
        if CLASSES in factors:
            causes[COMPONENT, users], terms[COMPONENT, users] = _strongest_classes(
                P[users] * factors[CLASSES][users, None], model.item_probs, items[users]
            )
        if model.pair_ranking is None:
            return
        for user in range(start, min(users.stop, len(items))):
            own = {name: float(factor[user]) for name, factor in factors.items()}
            history = X.indices[X.indptr[user] : X.indptr[user + 1]]
            causes[ITEM, user], terms[ITEM, user] = _strongest_items(
                model.pair_ranking, history, items[user], own
            )

    map_blocks(block, range(0, len(items), _USERS_PER_BLOCK))
    # Negative terms speak against an item; of equal ones the item of the history is named.
    kinds = np.where(terms[ITEM] >= terms[COMPONENT], ITEM, COMPONENT)
    kinds[np.maximum(terms[ITEM], terms[COMPONENT]) <= 0] = POPULAR
    return Reasons(kinds, np.choose(kinds, causes), np.choose(kinds, terms))


def _strongest_classes(P: Array, item_probs: Array, items: Array) -> tuple[Array, Array]:
    """Return the class with the largest P[k | u] O[y, k], and that product: (N, n) each."""
    terms = P[:, None, :].astype(item_probs.dtype) * item_probs[items]
    best = terms.argmax(axis=2)
    found = np.take_along_axis(terms, best[:, :, None], axis=2)[:, :, 0]
    return best, np.where(items >= 0, found, 0.0)


def _strongest_items(
    ranking: PairRanking, history: Array, items: Array, factors: Mapping[str, float]
) -> tuple[Array, Float64]:
    """Return the item of one history that adds most to each listed one, and how much: (n,)."""
    causes, terms = np.full(len(items), -1, dtype=np.int64), np.zeros(len(items))
    listed = np.flatnonzero(items >= 0)
    if len(history) and len(listed):
        added = by_history(ranking, history, items[listed], factors)
        best = added.argmax(axis=1)
        causes[listed] = history[best]
        terms[listed] = added[np.arange(len(listed)), best]
    return causes, terms
