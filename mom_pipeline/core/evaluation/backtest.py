"""Lists of a model against what it did not see: later interactions, or hidden ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting, TooLittleData
from mom_pipeline.core.evaluation.metrics import (
    METRICS,
    SHOWN_CUTOFF,
    RankingMetrics,
    checked_cutoffs,
    evaluate_ranking,
    nearest_cutoff,
)
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import as_interactions, resized
from mom_pipeline.core.moments.users import DayRows, UserRows, Users, UsersInMemory, rows_of
from mom_pipeline.core.ranking.learning import Window
from mom_pipeline.core.ranking.lists import rows_for
from mom_pipeline.core.ranking.topn import lists_by_popularity
from mom_pipeline.core.types import Array, Csr, Float64


@dataclass(frozen=True)
class Backtest:
    """A model and popularity on the same users. n_newcomers: without a history, not evaluated."""

    model: RankingMetrics
    popularity: RankingMetrics
    n_newcomers: int

    def as_arrays(self) -> dict[str, Array]:
        """Return the values of each user at the cut-off that is shown, to be stored."""
        k = nearest_cutoff(self.model.cutoffs)
        at = self.model.cutoffs.index(k)
        values = {
            name: np.stack([metrics.per_user[own][:, at] for own in METRICS], axis=1)
            for name, metrics in (("model", self.model), ("popularity", self.popularity))
        }
        counts = np.array([k, self.model.n_dropped, self.n_newcomers])
        return {"users": self.model.users, "counts": counts, **values}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the backtest that `as_arrays` stored, at its one cut-off."""
        k, n_dropped, n_newcomers = arrays["counts"].tolist()

        def metrics(name: str) -> RankingMetrics:
            columns = np.split(arrays[name], len(METRICS), axis=1)
            values = dict(zip(METRICS, columns, strict=True))
            return RankingMetrics.from_values((k,), values, arrays["users"], n_dropped)

        return cls(metrics("model"), metrics("popularity"), n_newcomers)


@dataclass(frozen=True)
class _Tested:
    """Some users of the test period."""

    users: Array  # (n,) positions, with a history
    relevant: Array  # (m,) of these, with something to be found
    model: Float64  # (m, metrics, cut-offs)
    popularity: Float64


def backtest(
    model: FittedModel,
    train: Users,
    test: Csr,
    cutoffs: tuple[int, ...],
    *,
    exclude_seen: bool = True,
) -> Backtest | None:
    """Score the lists of a model, and of popularity, on later interactions.

    train: rows of the model's day.  test: (N', D') later, with newer users and items; an item that
    the model does not know counts as missed.  exclude_seen: earlier items are neither listed nor
    relevant.  None when no user of the test period has a history.
    """
    sampled = np.flatnonzero(np.diff(test.indptr) > 0)
    cutoffs = checked_cutoffs(cutoffs)
    work = partial(_tested, model.answering(), cutoffs, exclude_seen)
    parts = list(train.visit(work, sampled, test))
    if not sum(len(part.relevant) for part in parts):
        return None
    users, relevant = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("users", "relevant")
    )
    order = np.argsort(relevant)
    own = np.searchsorted(np.sort(users), relevant[order])

    def metrics(name: str) -> RankingMetrics:
        values = np.concatenate([getattr(part, name) for part in parts])[order]
        per_user = {metric: values[:, i] for i, metric in enumerate(METRICS)}
        return RankingMetrics.from_values(cutoffs, per_user, own, len(users) - len(relevant))

    return Backtest(metrics("model"), metrics("popularity"), len(sampled) - len(users))


def backtest_of_hidden(
    method: Any,
    rows: DayRows,
    listing: Callable[[FittedModel], FittedModel],
    cutoffs: tuple[int, ...],
    *,
    exclude_seen: bool = True,
) -> Backtest | None:
    """Backtest a fit without a random fifth of everybody's items on these: for logs of one day.

    method: a `MethodOfMoments`, whose weights are learnt on what is left.  rows: X and last_days.
    """
    window = Window.hiding(rows.X, np.random.default_rng(method.seed), rows.last_days)
    if window is None:
        return None
    model = method.fit(window.X, last_days=window.last_days, exclude_seen=exclude_seen).fitted
    users = UsersInMemory(window.X, window.last_days)
    return backtest(listing(model), users, window.later, cutoffs, exclude_seen=exclude_seen)


def _tested(
    model: FittedModel, cutoffs: tuple[int, ...], exclude_seen: bool, rows: UserRows, later: Csr
) -> _Tested:
    """Compare lists of a model and of popularity with what their users took later."""
    known = np.flatnonzero(np.diff(rows.X.indptr) > 0)
    users, later = rows.positions[known], later[known]
    rows = rows_of(rows, users)
    seen = resized(rows.X, (len(users), later.shape[1]))
    if exclude_seen:
        later = sparse.csr_array(later.astype(bool) > seen.astype(bool))
    later.eliminate_zeros()
    relevant = np.flatnonzero(np.diff(later.indptr) > 0)
    own, later, n = rows_for(model, rows).block(relevant), later[relevant], cutoffs[-1]
    popular = np.where(model.candidates, model.popularity, -np.inf)
    by_model = model.top().best(own, n, exclude_seen=exclude_seen).items
    by_popularity = lists_by_popularity(popular, own.X, n, exclude_seen=exclude_seen)

    def metrics(ids: Array) -> Float64:
        if not len(ids):
            return np.zeros((0, len(METRICS), len(cutoffs)))
        per_user = evaluate_ranking(ids, later, cutoffs).per_user
        return np.stack([per_user[name] for name in METRICS], axis=1)

    return _Tested(users, users[relevant], metrics(by_model), metrics(by_popularity))


@dataclass(frozen=True)
class RankingScorer:
    """Hides a fifth of every user's items, and scores the lists from the rest on it.

    metric: "precision", "recall", "map" or "ndcg", at the cut-off.  seed: of what is hidden; the
    same users are asked the same whatever the settings.

        GridSearchCV(MethodOfMoments(), {"n_components": [20, 50]}, scoring=RankingScorer())
    """

    metric: str = "ndcg"
    cutoff: int = SHOWN_CUTOFF
    seed: int = 0

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InvalidSetting(
                f"metric must be one of {', '.join(METRICS)}, found {self.metric!r}"
            )

    def __call__(self, estimator: Any, X: Any, y: None = None) -> float:
        """Mean over the users of X, (N, D), with two items or more, of a model or `Pipeline`."""
        X = as_interactions(X)
        window = Window.hiding(X, np.random.default_rng(self.seed))
        if window is None:
            raise TooLittleData(
                f"none of the {X.shape[0]} users has two items, so that nothing can be hidden; "
                "score on users with more"
            )
        users = np.flatnonzero(np.diff(window.later.indptr))
        model, rows = estimator, window.X[users]
        if hasattr(estimator, "steps"):
            model = estimator[-1]
            rows = estimator[:-1].transform(rows) if len(estimator.steps) > 1 else rows
        ids, _ = model.recommend(rows, self.cutoff)
        metrics = evaluate_ranking(ids, window.later[users], (self.cutoff,))
        return float(getattr(metrics, self.metric)[self.cutoff])
