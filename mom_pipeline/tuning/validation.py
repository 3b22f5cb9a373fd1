"""The validation days: what was taken up to a day, and how a model does on what came after it."""

from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.evaluation.metrics import RankingMetrics, evaluate_ranking
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import grown
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.choose import MAX_USERS
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.ranking.topn import brute_force
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.settings import ModelSettings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.evaluations import delivered_pairs
from mom_pipeline.warehouse.matrix import matrix_as_of

CUTOFF = 20


@dataclass(frozen=True, eq=False)
class Trial:
    """One setting on the validation days. ap: (users,) average precision of each.

    ranking_weights: of the three-moment ranking; None where the components alone rank.
    popularity: MAP of popularity for the same users.
    """

    model: ModelSettings
    ranking_weights: RankingWeights | None
    map: float
    recall: float
    ap: Array
    popularity: float = float("nan")

    def gain_over(self, other: "Trial") -> tuple[float, float]:
        """The mean difference of the average precision, and its standard error."""
        d = self.ap - other.ap
        return float(d.mean()), float(d.std() / np.sqrt(len(d)))

    def settings(self) -> dict[str, Any]:
        """What would be written, as `section.key` -> value."""
        keys = ("n_components", "estimator", "rows", "personalization", "ranking")
        values = {f"model.{key}": getattr(self.model, key) for key in keys}
        if self.ranking_weights is not None:
            values |= {f"ranking.{k}": v for k, v in asdict(self.ranking_weights).items()}
        return values


@dataclass(frozen=True)
class ValidationDays:
    """What was taken up to a day, and what at most MAX_USERS users took after it.

    train, last_days: (N, D) rows and the days of their pairs.  test: (N', D').
    exclude_seen: what a user had before is neither listed nor relevant.
    """

    until: date
    train: Csr
    last_days: Csr
    test: Csr
    exclude_seen: bool = True

    @classmethod
    def from_warehouse(cls, warehouse: Warehouse, until: date, last: date) -> Self:
        """Learn from the days up to one, and ask about those after it up to the last."""
        matrix, settings = matrix_as_of(warehouse, until), warehouse.settings
        test = delivered_pairs(warehouse, until, last)
        return cls.from_rows(
            until,
            matrix.interactions,
            matrix.last_days,
            test,
            seed=settings.model.seed,
            exclude_seen=settings.serving.exclude_seen,
        )

    @classmethod
    def from_rows(
        cls,
        until: date,
        train: Csr,
        last_days: Csr,
        test: Csr,
        *,
        seed: int = 0,
        exclude_seen: bool = True,
    ) -> Self:
        """Draw the users that are asked about. test: (N', D') of all users."""
        had = train if exclude_seen else sparse.csr_array(train.shape)
        return cls(until, train, last_days, _some_users(train, had, test, seed), exclude_seen)

    @property
    def n_users(self) -> int:
        """How many users are asked about."""
        return int(np.count_nonzero(np.diff(self.test.indptr)))

    def trial(
        self, settings: ModelSettings, weights: RankingWeights | None, fitted: FittedModel
    ) -> Trial:
        """Measure a model. settings, weights: what it was made with."""
        users, seen = self._users, self.exclude_seen
        rows = fitted.aged(self.train, self.last_days)[users]
        ours = self._measured(fitted.best(rows, CUTOFF, exclude_seen=seen).items)
        means = ours.map[CUTOFF], ours.recall[CUTOFF]
        return Trial(settings, weights, *means, ours.per_user["map"][:, 0], self.popularity)

    @cached_property
    def popularity(self) -> float:
        """MAP of the most popular items, the same for every trial."""
        item_users = np.bincount(self.train.indices, minlength=self.train.shape[1])
        scores = np.where(item_users > 0, item_users.astype(np.float64), -np.inf)
        lists, _ = brute_force(
            self.train[self._users],
            lambda rows: np.tile(scores, (rows.shape[0], 1)),
            CUTOFF,
            exclude_seen=self.exclude_seen,
        )
        return self._measured(lists).map[CUTOFF]

    @cached_property
    def _users(self) -> Array:
        return np.flatnonzero(np.diff(self.test.indptr)[: self.train.shape[0]])

    def _measured(self, lists: Array) -> RankingMetrics:
        later = self.test[self._users]
        had = grown(self.train, self.test.shape)[self._users] if self.exclude_seen else None
        return evaluate_ranking(lists, later, (CUTOFF,), train=had)

    def ranked(
        self, fitted: FittedModel, low_pass: LowPass | None, weights: RankingWeights
    ) -> FittedModel:
        """Return a model that ranks by three moments, with the pairs and days of the rows."""
        ranking = PairRanking.from_users(
            UsersInMemory(self.train, self.last_days), low_pass, weights
        )
        return replace(fitted, pair_ranking=ranking)


def _some_users(train: Csr, had: Csr, test: Csr, seed: int) -> Csr:
    """Keep what at most MAX_USERS users, drawn at random, took; the rows stay in place.

    Of those with a history and with an item beyond what they `had`, (N, D).
    """
    train, had = grown(train, test.shape), grown(had, test.shape)
    new = (test.astype(bool) > had.astype(bool)).tocsr()
    users = np.flatnonzero((np.diff(new.indptr) > 0) & (np.diff(train.indptr) > 0))
    if len(users) == 0:
        raise InvalidInteractions(
            "no user with a history took anything new on the validation days; use more days"
        )
    kept = np.zeros(test.shape[0], dtype=bool)
    kept[np.random.default_rng(seed).permutation(users)[:MAX_USERS]] = True
    some = test.copy()
    some.data = some.data * np.repeat(kept, np.diff(test.indptr))
    some.eliminate_zeros()
    return some
