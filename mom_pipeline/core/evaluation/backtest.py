"""One day of serving: posteriors and lists of the users that a day asks for, and how well an
earlier model foresaw what was delivered since.
"""

from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.evaluation.metrics import RankingMetrics, evaluate_ranking
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import grown
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.ranking.bounded_lists import BoundedLists
from mom_pipeline.core.ranking.score import CLASSES
from mom_pipeline.core.ranking.topn import hide_seen, recommend_top, top_n, user_blocks
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64


def refreshed(previous: Array | None, X: Csr, users: Array, model: FittedModel) -> Array:
    """Return P[class | user] of all users, (N, K): new for `users`, as before for the others.

    previous: yesterday's, or None when there is none of the same model. Items that the model
    does not know yet tell nothing about a user.
    """
    X = X[:, : model.n_items]
    if previous is None:
        return model.memberships(X)
    P = padded(previous, X.shape[0])
    P[users] = model.memberships(X[users])
    return P


def posterior_entropy(P: Array) -> Float64:
    """Return the entropy of every user's posterior in bits, (N,)."""
    return np.asarray(-(P * np.log2(np.maximum(P, np.finfo(np.float64).tiny))).sum(axis=1))


@dataclass(frozen=True)
class BestItems:
    """The best items of N users.

    items, scores: (N, n), a short list ends with -1.
    factors: by what each part of a user's scores was multiplied, name -> (N,).
    """

    items: Array
    scores: Float64
    factors: dict[str, Array]


def best_items(
    X: Csr, P: Array, model: FittedModel, n: int, *, exclude_seen: bool = True
) -> BestItems:
    """Find the n best items of every user.

    X: (N, D).  P: (N, K), the posteriors of the same users. A short list ends with -1: an item
    that nobody has taken, or that no class of the user can bring, is no candidate.
    """
    taken = model.popularity > 0
    if model.pair_ranking is not None:
        return _best_by_three_moments(X, model, n, taken, exclude_seen)
    lists = BoundedLists.of(model.item_probs, taken)
    items, scores = lists.best(X, P, n, exclude_seen=exclude_seen)
    listed = np.where(scores > 0, items, -1).astype(np.int64)
    return BestItems(listed, scores.astype(np.float64), {CLASSES: np.ones(len(P))})


def _best_by_three_moments(
    X: Csr, model: FittedModel, n: int, taken: Array, exclude_seen: bool
) -> BestItems:
    items = np.full((X.shape[0], n), -1, dtype=np.int64)
    scores = np.zeros((X.shape[0], n))

    def block(users: slice) -> dict[str, Array]:
        rows = X[users]
        found, factors = model.three_moment_scores_with_factors(rows)
        found[:, ~taken] = -np.inf
        if exclude_seen:
            hide_seen(found, rows)
        best, values = top_n(found, n)
        items[users, : best.shape[1]], scores[users, : best.shape[1]] = best, values
        return factors

    factors = map_blocks(block, user_blocks(*X.shape))
    names = factors[0] if factors else ()
    return BestItems(
        items, scores, {name: np.concatenate([own[name] for own in factors]) for name in names}
    )


@dataclass(frozen=True)
class Foresight:
    """A model and popularity on the same users.

    n_newcomers: users of the test period without a history, left out.
    """

    model: RankingMetrics
    popularity: RankingMetrics
    n_newcomers: int


def foresight(
    model: FittedModel, train: Csr, test: Csr, cutoffs: tuple[int, ...]
) -> Foresight | None:
    """Score the lists of a model, and of popularity, on what users took later.

    train: (N, D) rows of the model's day.  test: (N', D') later pairs, with newer users and
    items; an item that the model does not know cannot be found and counts as missed.
    Returns None when no user of the test period has a history.
    """
    train = grown(train, test.shape)
    asked = np.diff(test.indptr) > 0
    users = np.flatnonzero(asked & (np.diff(train.indptr) > 0))
    if (test[users].astype(bool) > train[users].astype(bool)).nnz == 0:
        return None
    X, n, D = train[users][:, : model.n_items], cutoffs[-1], model.n_items
    item_users = np.bincount(train.indices, minlength=D).astype(np.float64)[:D]
    by_model = best_items(X, model.memberships(X), model, n).items
    by_popularity, _ = recommend_top(X, lambda rows: np.tile(item_users, (rows.shape[0], 1)), n)
    history = train[users]
    return Foresight(
        evaluate_ranking(by_model, test[users], cutoffs, train=history),
        evaluate_ranking(by_popularity, test[users], cutoffs, train=history),
        int(asked.sum()) - len(users),
    )
