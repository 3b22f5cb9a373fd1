"""How well an earlier model would have served what users took later."""

from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.evaluation.metrics import RankingMetrics, evaluate_ranking
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import grown
from mom_pipeline.core.ranking.topn import brute_force
from mom_pipeline.core.types import Csr


@dataclass(frozen=True)
class Backtest:
    """A model and popularity on the same users.

    n_newcomers: users of the test period without a history, left out.
    """

    model: RankingMetrics
    popularity: RankingMetrics
    n_newcomers: int


def backtest(
    model: FittedModel, train: Csr, test: Csr, cutoffs: tuple[int, ...]
) -> Backtest | None:
    """Score the lists of a model, and of popularity, on what users took later.

    train: (N, D) rows of the model's day.  test: (N', D') later pairs, with newer users and
    items; an item that the model does not know cannot be found and counts as missed.
    Returns None when no user of the test period has a history.
    """
    train = grown(train, test.shape)
    asked = np.diff(test.indptr) > 0
    users = np.flatnonzero(asked & (np.diff(train.indptr) > 0))
    history, later = train[users], test[users]
    if (later.astype(bool) > history.astype(bool)).nnz == 0:
        return None
    X, n = history[:, : model.n_items], max(cutoffs)
    item_users = np.bincount(train.indices, minlength=model.n_items)[: model.n_items]
    popularity = np.where(item_users > 0, item_users.astype(np.float64), -np.inf)
    by_model = model.best(X, n).items
    by_popularity, _ = brute_force(X, lambda rows: np.tile(popularity, (rows.shape[0], 1)), n)
    return Backtest(
        evaluate_ranking(by_model, later, cutoffs, train=history),
        evaluate_ranking(by_popularity, later, cutoffs, train=history),
        int(asked.sum()) - len(users),
    )
