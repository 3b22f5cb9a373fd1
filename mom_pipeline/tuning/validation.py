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
from mom_pipeline.core.interactions import resized
from mom_pipeline.core.moments.sums import users_per_item
from mom_pipeline.core.moments.users import (
    IN_MEMORY,
    DayRows,
    RowsEngine,
    UserRows,
    Users,
    UsersInMemory,
)
from mom_pipeline.core.ranking.choose import MAX_USERS
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.ranking.topn import lists_by_popularity
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.settings import ModelSettings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import delivered_pairs, matrix_as_of

CUTOFF = 20
_PAIRS_PER_BLOCK = 4_000_000


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

    train, last_days: (N, D) rows and the days of their pairs; they may lie in files.
    everyone: visits all of these rows.  test: (N', D').
    exclude_seen: what a user had before is neither listed nor relevant.
    """

    until: date
    train: Csr
    last_days: Csr
    test: Csr
    everyone: Users
    exclude_seen: bool = True

    @classmethod
    def from_warehouse(
        cls, warehouse: Warehouse, until: date, last: date, engine: RowsEngine = IN_MEMORY
    ) -> Self:
        """Learn from the days up to one, and ask about those after it up to the last.

        engine: who visits the users for what is learnt from all of them.
        """
        matrix, settings = matrix_as_of(warehouse, until, engine.array), warehouse.settings
        test = delivered_pairs(warehouse, until, last, engine.array)
        rows = DayRows(matrix.interactions, matrix.last_days, matrix.fingerprint)
        return cls.from_rows(
            until,
            matrix.interactions,
            matrix.last_days,
            test,
            engine.users(rows),
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
        everyone: Users | None = None,
        *,
        seed: int = 0,
        exclude_seen: bool = True,
    ) -> Self:
        """Draw the users that are asked about.

        test: (N', D') of all users.  everyone: visits the rows; None for this process.
        """
        users = everyone or UsersInMemory(train, last_days)
        asked = _some_users(train, test, seed, exclude_seen=exclude_seen)
        return cls(until, train, last_days, _rows_alone(test, asked), users, exclude_seen)

    @property
    def n_users(self) -> int:
        """How many users are asked about."""
        return len(self.asked.positions)

    @cached_property
    def asked(self) -> UserRows:
        """The users that are asked about, with their rows."""
        users = np.flatnonzero(np.diff(self.test.indptr))
        return UserRows(users, self.train[users], self.last_days[users])

    @cached_property
    def item_users(self) -> Array:
        """How many users had each item, (D,)."""
        return users_per_item(self.train)

    def trial(
        self, settings: ModelSettings, weights: RankingWeights | None, fitted: FittedModel
    ) -> Trial:
        """Measure a model. settings, weights: what it was made with."""
        rows = fitted.aged(self.asked.X, self.asked.last_days)
        ours = self._measured(fitted.best(rows, CUTOFF, exclude_seen=self.exclude_seen).items)
        means = ours.map[CUTOFF], ours.recall[CUTOFF]
        return Trial(settings, weights, *means, ours.per_user["map"][:, 0], self.popularity)

    @cached_property
    def popularity(self) -> float:
        """MAP of the most popular items, the same for every trial."""
        scores = np.where(self.item_users > 0, self.item_users.astype(np.float64), -np.inf)
        lists = lists_by_popularity(scores, self.asked.X, CUTOFF, exclude_seen=self.exclude_seen)
        return self._measured(lists).map[CUTOFF]

    def _measured(self, lists: Array) -> RankingMetrics:
        later = self.test[self.asked.positions]
        had = resized(self.asked.X, later.shape) if self.exclude_seen else None
        return evaluate_ranking(lists, later, (CUTOFF,), train=had)

    def ranked(
        self, fitted: FittedModel, low_pass: LowPass | None, weights: RankingWeights
    ) -> FittedModel:
        """Return a model that ranks by three moments, with the pairs and days of the rows."""
        ranking = PairRanking.from_users(self.everyone, low_pass, weights)
        return replace(fitted, pair_ranking=ranking)


def _some_users(train: Csr, test: Csr, seed: int, *, exclude_seen: bool) -> Array:
    """Return at most MAX_USERS users, drawn at random: positions, rising.

    Of those with a history and with an item in `test`, beyond it where what was seen is excluded.
    """
    train, users = resized(train, test.shape), [np.empty(0, dtype=np.int64)]
    for block in cut(train.indptr + test.indptr, _PAIRS_PER_BLOCK, test.shape[0]):
        had, took = train[block].astype(bool), test[block].astype(bool)
        new = (took > had).tocsr() if exclude_seen else took
        both = (np.diff(new.indptr) > 0) & (np.diff(had.indptr) > 0)
        users.append(np.flatnonzero(both) + block.start)
    drawn = np.random.default_rng(seed).permutation(np.concatenate(users))[:MAX_USERS]
    if len(drawn) == 0:
        raise InvalidInteractions(
            "no user with a history took anything new on the validation days; use more days"
        )
    return np.sort(drawn)


def _rows_alone(test: Csr, users: Array) -> Csr:
    """Keep the rows of some users; all rows stay in place."""
    rows, sizes = test[users], np.zeros(test.shape[0], dtype=np.int64)
    sizes[users] = np.diff(rows.indptr)
    return sparse.csr_array((rows.data, rows.indices, np.append(0, np.cumsum(sizes))), test.shape)
