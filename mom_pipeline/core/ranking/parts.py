"""The parts of the score: what each moment says about every item, for a block of histories.

Each is a sum over the items of a history: of all items (`scores`), of some (`at`), and what each
item of the history adds to these, (entries, n) (`by_entry`).
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.moments.cooccurrences import Cooccurrences
from mom_pipeline.core.ranking.item_matrix import ItemMatrix, owners
from mom_pipeline.core.types import Array, Csr, Float64

PAIRS, EASE, LOW_PASS = "pairs", "ease", "low_pass"
COMPONENTS = "components"
# Power of the length of a history that divides its co-occurrences: busy users count for more.
USER_EXPONENT = 0.5
# History exponent of co-occurrences of rows without days; README has what it was chosen on.
UNDATED_EXPONENT = 0.9
# Half-life in days of what a user took, before the newest of it, as EASE reads it. Beside
# co-occurrences of all that was ever taken this brings 11, 8 and -4 ten-thousandths of nDCG@20 on
# earlier months of 30Music, MovieTweetings and Online Retail, 22, 4 and 40 on earlier weeks.
HALF_LIFE = 30.0


@dataclass(frozen=True)
class Histories:
    """Rows of users as the parts read them."""

    X: Csr  # (users, D), canonical
    posterior: Callable[[Csr], Array]  # gives P[component | user], (users, K), of such rows
    last_days: Csr | None = None  # (users, D) the day of every entry's last event

    @cached_property
    def memberships(self) -> Array:
        return self.posterior(self.X)

    @cached_property
    def once(self) -> Csr:
        """The histories as sets, in single precision."""
        once = copy(self.X)
        once.data = np.ones(self.X.nnz, dtype=np.float32)
        return once

    @cached_property
    def aged(self) -> Csr:
        """What a user took h days before the newest of it as 2^(-h / 30), where days are known."""
        if self.last_days is None or not self.X.nnz:
            return self.once
        users, days = self.seen[0], self.last_days.data
        newest = np.zeros(self.X.shape[0])
        np.maximum.at(newest, users, days)
        aged = copy(self.once)
        aged.data = np.exp2((days - newest[users]) / HALF_LIFE).astype(np.float32)
        return aged

    @cached_property
    def seen(self) -> tuple[Array, Array]:
        """Row and item of every entry of X."""
        return owners(self.X), self.X.indices

    @property
    def lengths(self) -> Array:
        """Items of every history, (users,)."""
        return np.diff(self.X.indptr)

    def entries_of(self, items: Array) -> Array:
        """Return which entry of X an item of its user is, -1 for none. items: (users, n)."""
        rows, D = np.arange(len(items))[:, None], self.X.shape[1]
        keys = self.seen[0] * np.int64(D) + self.X.indices
        wanted = rows * np.int64(D) + items
        found = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        known = keys[found] == wanted if len(keys) else np.zeros(items.shape, dtype=bool)
        return np.where(known, found, -1)

    def block(self, users: slice | Array) -> "Histories":
        """Return some rows, with their days where those are known."""
        days = None if self.last_days is None else self.last_days[users]
        return Histories(self.X[users], self.posterior, days)


class Part(Protocol):
    """One part of the score."""

    @property
    def name(self) -> str: ...
    def scores(self, rows: Histories) -> Array: ...
    def at(self, rows: Histories, items: Array) -> Array: ...
    def by_entry(self, rows: Histories, items: Array) -> Array: ...


@dataclass(frozen=True)
class Pairs:
    """Co-occurrences G of a candidate with the items of the history.

        score_y = sum_h x_h G_hy / (c_h^a c_y^(1-a)),    a: 1/2, a cosine, or more

    matrix: G.  item_users: c, (D,).  history_exponent: a; above 1/2 rare items of a history tell
    more, and popular candidates are held back less.
    """

    name: ClassVar[str] = PAIRS
    matrix: ItemMatrix
    item_users: Float64
    history_exponent: float = 0.5

    @classmethod
    def from_counts(cls, counts: Cooccurrences) -> Self:
        return cls(ItemMatrix(counts.matrix()), counts.item_users.astype(np.float64))

    def scores(self, rows: Histories) -> Array:
        X = copy(rows.once)
        X.data = X.data * self._of_history[X.indices]
        scores = self.matrix.sums(X)
        scores *= self._of_candidate
        return scores

    def at(self, rows: Histories, items: Array) -> Array:
        return added_up(rows.X, self.by_entry(rows, items))

    def by_entry(self, rows: Histories, items: Array) -> Array:
        X = rows.once
        scales = self._of_candidate[items][owners(X)]
        scales *= self._of_history[X.indices][:, None]
        scales *= self.matrix.at(X, items)
        return np.asarray(scales)

    @cached_property
    def _of_history(self) -> Array:
        return self._users_to(-self.history_exponent)

    @cached_property
    def _of_candidate(self) -> Array:
        return self._users_to(self.history_exponent - 1.0)

    def _users_to(self, power: float) -> Array:
        return np.asarray(np.maximum(self.item_users, 1.0) ** power, dtype=np.float32)


def added_up(X: Csr, terms: Array) -> Array:
    """Return the sum of what the entries of each row add, (users, n). terms: (entries, n)."""
    by_user = (np.ones(X.nnz, dtype=terms.dtype), np.arange(X.nnz), X.indptr)
    return np.asarray(sparse.csr_array(by_user, shape=(X.shape[0], X.nnz)) @ terms)
