"""Backtest: the lists of an earlier model on what users took later."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from mom_pipeline.core.evaluation.metrics import (
    METRICS,
    RankingMetrics,
    evaluate_ranking,
    nearest_cutoff,
)
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import grown
from mom_pipeline.core.ranking.topn import brute_force
from mom_pipeline.core.types import Array, Csr


@dataclass(frozen=True)
class Backtest:
    """A model and popularity on the same users.

    n_newcomers: users of the test period without a history, left out.
    """

    model: RankingMetrics
    popularity: RankingMetrics
    n_newcomers: int

    def as_arrays(self) -> dict[str, Array]:
        """Return the values of each user at the cut-off that is shown, to be stored.

        `from_arrays` reads them back.
        """
        k = nearest_cutoff(self.model.cutoffs)
        ours, theirs = self.model.at(k), self.popularity.at(k)
        return {
            "users": ours.users,
            "counts": np.array([k, ours.n_dropped, self.n_newcomers]),
            "model": np.hstack([ours.per_user[name] for name in METRICS]),
            "popularity": np.hstack([theirs.per_user[name] for name in METRICS]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the backtest that `as_arrays` stored, at its one cut-off."""
        k, n_dropped, n_newcomers = arrays["counts"].tolist()

        def metrics(name: str) -> RankingMetrics:
            columns = np.split(arrays[name], len(METRICS), axis=1)
            values = dict(zip(METRICS, columns, strict=True))
            return RankingMetrics.from_values((k,), values, arrays["users"], n_dropped)

        return cls(metrics("model"), metrics("popularity"), n_newcomers)


def backtest(
    model: FittedModel,
    train: Csr,
    test: Csr,
    cutoffs: tuple[int, ...],
    *,
    exclude_seen: bool = True,
) -> Backtest | None:
    """Score the lists of a model, and of popularity, on what users took later.

    train: (N, D) rows of the model's day.  test: (N', D') later pairs, with newer users and
    items; an item that the model does not know cannot be listed and counts as missed.
    exclude_seen: what a user had before is neither listed nor relevant.
    Returns None when no user of the test period has a history.
    """
    train = grown(train, test.shape)
    asked = np.diff(test.indptr) > 0
    users = np.flatnonzero(asked & (np.diff(train.indptr) > 0))
    history, later = train[users], test[users]
    had = history if exclude_seen else None
    if (had is not None and (later.astype(bool) > had.astype(bool)).nnz == 0) or not len(users):
        return None
    X, n = history[:, : model.n_items], max(cutoffs)
    item_users = np.bincount(train.indices, minlength=model.n_items)[: model.n_items]
    popularity = np.where(item_users > 0, item_users.astype(np.float64), -np.inf)
    by_model = model.best(X, n, exclude_seen=exclude_seen).items
    by_popularity, _ = brute_force(
        X, lambda rows: np.tile(popularity, (rows.shape[0], 1)), n, exclude_seen=exclude_seen
    )
    return Backtest(
        evaluate_ranking(by_model, later, cutoffs, train=had),
        evaluate_ranking(by_popularity, later, cutoffs, train=had),
        int(asked.sum()) - len(users),
    )
