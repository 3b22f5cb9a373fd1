"""Do users take what goes with what they took before? Co-occurrences against chance, for a day.

An item i that a user took goes with other items j of the user if users of i had j more often than
users as such. Counted from the histories of all N users but the user's own:

    r_i = mean_j (a + N C_ij / c_i) / (a + c_j),    1: no more often than by chance

C: co-occurrences, c: users of an item, a: draws ratios of rare items towards 1. Of r / (1 + r),
so that no single item decides, the mean m over the user's items and then over the users gives the
lift m / (1 - m). Twice: j from the user's history, and from the other half of the user's day. The
first falls when users are given the rows of others, the second when items are exchanged.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.core.interactions import as_binary, rows_of_entries, with_entries
from mom_pipeline.core.types import Array, Csr, Float64

_SMOOTHING = 5.0
# Bounds of the cost, by samples that depend on the rows alone: users of the day, items of a user,
# and co-occurrences counted.
_MOST_USERS, _MOST_ITEMS, _MOST_COUNTED = 500, 200, 30_000_000


class Lift(NamedTuple):
    """A lift over some users; error: the standard error of its logarithm."""

    value: float
    n_users: int
    error: float


NO_LIFT = Lift(1.0, 0, 0.0)


def cooccurrence_lift(X: Csr, day: Csr) -> tuple[Lift, Lift]:
    """Return the lift of a day given the users' histories, and given the other half of their day.

    X: (N, D) interactions as of the day before.  day: (N, D) interactions of the day; only users
    and items that X knows are sampled.
    """
    rng = np.random.default_rng(0)
    lengths = np.diff(X.indptr)
    users = rng.permutation(np.flatnonzero((lengths > 0) & (np.diff(day.indptr) > 0)))
    users = np.sort(users[:_MOST_USERS])
    counted = rng.permutation(np.flatnonzero(lengths))
    costs = np.cumsum(np.minimum(lengths[counted], _MOST_ITEMS).astype(np.int64) ** 2)
    counted = np.union1d(counted[costs <= _MOST_COUNTED], users)
    histories, taken = _sampled(X[counted], rng), day[users]
    taken = _sampled(with_entries(taken, np.isin(taken.indices, histories.indices)), rng)
    own = histories[np.searchsorted(counted, users)]
    columns = np.union1d(own.indices, taken.indices)
    histories, own, taken = (rows[:, columns] for rows in (histories, own, taken))
    counts = _Counts.of(histories, np.unique(taken.indices))
    odd = _places(taken) % 2 == 1
    one, other = with_entries(taken, ~odd), with_entries(taken, odd)
    halves = zip(counts.odds(one, other, own), counts.odds(other, one, own), strict=True)
    return _lift(*counts.odds(taken, own, own)), _lift(*map(np.concatenate, halves))


class _Counts(NamedTuple):
    """C: (D, D) co-occurrences, of the items of a day alone.  c: (D,) users.  n: all users."""

    C: Csr
    c: Array
    n: int

    @classmethod
    def of(cls, histories: Csr, items: Array) -> "_Counts":
        of_day = with_entries(histories, np.isin(histories.indices, items))
        C = csr_array(histories.T @ of_day)
        C.setdiag(0)
        c = np.bincount(histories.indices, minlength=histories.shape[1])
        return cls(C, c, histories.shape[0])

    def odds(self, taken: Csr, given: Csr, own: Csr) -> tuple[Float64, Array]:
        """Return r / (1 + r) of items taken, given others, without the user's own row; and users.

        taken, given, own: (users, D) binary. An item that nobody else has is left out.
        """
        if not taken.nnz or not given.nnz:
            return np.empty(0), np.empty(0, dtype=np.int64)
        users, givers = rows_of_entries(taken), rows_of_entries(given)
        known = own[givers, given.indices]
        weights = 1 / (_SMOOTHING + self.c[given.indices] - known)
        W = csr_array((weights, given.indices, given.indptr), shape=given.shape)
        sums, own_sums = (
            np.bincount(givers, w, minlength=given.shape[0])[users]
            for w in (weights, weights * known)
        )
        itself, is_own = W[users, taken.indices], own[users, taken.indices]
        others = self.c[taken.indices] - is_own
        together = (W @ self.C)[users, taken.indices] - is_own * (own_sums - itself)
        n_given = np.diff(given.indptr)[users] - (itself > 0)
        told = (others > 0) & (n_given > 0)
        r = _SMOOTHING * (sums - itself) + (self.n - 1) * together / np.maximum(others, 1)
        r = r[told] / n_given[told]
        return r / (1 + r), users[told]


def _lift(odds: Float64, users: Array) -> Lift:
    """Return the lift from the odds of every item; each user counts once."""
    if not len(odds):
        return NO_LIFT
    _, rows, n_items = np.unique(users, return_inverse=True, return_counts=True)
    means = np.bincount(rows, odds) / n_items
    m = float(means.mean())
    error = float(means.std()) / math.sqrt(len(means)) / (m * (1 - m))  # of log(m / (1 - m))
    return Lift(m / (1 - m), len(means), error)


def _sampled(X: Csr, rng: np.random.Generator) -> Csr:
    """Return ones, for at most so many items of every row."""
    order = np.lexsort((rng.random(X.nnz), rows_of_entries(X)))
    kept = np.empty(X.nnz, dtype=bool)
    kept[order] = _places(X) < _MOST_ITEMS
    return with_entries(as_binary(X), kept)


def _places(X: Csr) -> Array:
    """Return which of its row each entry is."""
    return np.arange(X.nnz) - X.indptr[rows_of_entries(X)]
