"""The lists of a day: what is recommended to whom, and why."""

from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.evaluation.backtest import best_items
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.ranking.reasons import POPULAR, strongest
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Csr, Float64


@dataclass(frozen=True)
class ReasonedLists:
    """Lists of N users, the best first; a short list ends with -1 and is never padded.

    items, scores: (N, n).  kinds: (N, n), one of POPULAR, COMPONENT, ITEM.
    causes: (N, n), the number of the class (from 0) or the position of the item in the history.
    """

    items: Array
    scores: Float64
    kinds: Array
    causes: Array


def reasoned_lists(
    X: Csr, P: Array, model: FittedModel, n: int, *, exclude_seen: bool = True
) -> ReasonedLists:
    """Make the lists of some users; one without a history gets the most popular items.

    X: (N, D).  P: (N, K), the posteriors of the same users.
    """
    best = best_items(X, P, model, n, exclude_seen=exclude_seen)
    why = strongest(model, X, P, best.items, best.factors)
    newcomers = np.diff(X.indptr) == 0
    best.items[newcomers], best.scores[newcomers] = _most_popular(model, n)
    why.kinds[newcomers], why.causes[newcomers] = POPULAR, -1
    return ReasonedLists(best.items, best.scores, why.kinds, why.causes)


def _most_popular(model: FittedModel, n: int) -> tuple[Array, Float64]:
    """Return the n items of the most events and their shares of all events."""
    items, scores = np.full(n, -1, dtype=np.int64), np.zeros(n)
    shares = np.where(model.popularity > 0, model.popularity, -np.inf)
    best, values = top_n(shares[None, :], n)
    items[: best.shape[1]], scores[: best.shape[1]] = best[0], values[0]
    return items, scores
