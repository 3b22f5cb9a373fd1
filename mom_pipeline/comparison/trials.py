"""What every method is asked: histories to learn from, users, and what is to be found."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mom_pipeline.core.interactions import with_narrow_indices
from mom_pipeline.core.types import Array, Csr


@dataclass(frozen=True)
class Trial:
    """One question to all methods, with positions of its own.

    train: (N, D) users with a history, and the items of the catalogue; no empty row or column.
    users: positions in `train` of the users that are asked about, ascending.
    test: (len(users), D + unknown) 1 for every item to be found, no row empty. The columns after
        the catalogue are items that nobody had taken: they cannot be found and count as missed.
    n_newcomers: users of the test period without a history, left out.
    n_dropped: users with a history and nothing to be found, left out.
    """

    train: Csr
    users: Array
    test: Csr
    n_newcomers: int = 0
    n_dropped: int = 0

    @property
    def n_unknown(self) -> int:
        """How many of the pairs to be found lie outside of the catalogue."""
        return int((self.test.indices >= self.train.shape[1]).sum())

    def found_by_row(self) -> Csr:
        """Return what is to be found in the catalogue, rows and columns as in `train`."""
        known = self.test.tocoo()
        inside = known.col < self.train.shape[1]
        positions = (self.users[known.row[inside]], known.col[inside])
        rows = sparse.csr_array((known.data[inside], positions), shape=self.train.shape)
        return with_narrow_indices(rows)

    def sample(self, n_users: int, rng: np.random.Generator) -> "Trial":
        """Return the same question about at most so many of the users; `train` stays whole."""
        if len(self.users) <= n_users:
            return self
        chosen = np.sort(rng.choice(len(self.users), size=n_users, replace=False))
        return Trial(
            self.train, self.users[chosen], self.test[chosen], self.n_newcomers, self.n_dropped
        )


def make_trial(train: Csr, test: Csr, *, exclude_seen: bool = True) -> Trial:
    """Ask about every user of `test` who has a history in `train`.

    train, test: over the same dictionaries of users and items; either may be the larger one.
    exclude_seen: items of the user's own history are not to be found.
    """
    shape = (max(train.shape[0], test.shape[0]), max(train.shape[1], test.shape[1]))
    train, test = _grown(train, shape), _grown(test.astype(bool), shape)
    with_history = np.flatnonzero(np.diff(train.indptr))
    asked = np.diff(test.indptr) > 0
    n_newcomers = int(asked.sum() - asked[with_history].sum())
    wanted = test[with_history]
    if exclude_seen:
        wanted = wanted > train[with_history].astype(bool)
    wanted = sparse.csr_array(wanted)
    wanted.eliminate_zeros()
    users = np.flatnonzero(np.diff(wanted.indptr))
    return Trial(
        train=_columns(train[with_history], known := _taken(train)),
        users=users,
        test=_columns(wanted[users].astype(np.float64), _known_first(known, wanted[users])),
        n_newcomers=n_newcomers,
        n_dropped=int(asked[with_history].sum()) - len(users),
    )


def _taken(X: Csr) -> Array:
    """Return the columns in which anything stands, ascending."""
    return np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]))


def _known_first(known: Array, test: Csr) -> Array:
    """Return the columns of the catalogue, then those of the test alone."""
    return np.concatenate([known, np.setdiff1d(_taken(test), known)])


def _columns(X: Csr, columns: Array) -> Csr:
    """Return X with only these columns, which hold all its entries, in this order."""
    places = np.full(X.shape[1], -1, dtype=np.int64)
    places[columns] = np.arange(len(columns))
    moved = sparse.csr_array((X.data, places[X.indices], X.indptr), (X.shape[0], len(columns)))
    moved.sort_indices()
    return with_narrow_indices(moved)


def _grown(X: Csr, shape: tuple[int, int]) -> Csr:
    """Return X with empty rows and columns at its ends, canonical."""
    indptr = np.concatenate([X.indptr, np.full(shape[0] - X.shape[0], X.indptr[-1])])
    grown = sparse.csr_array((X.data, X.indices, indptr), shape=shape, copy=True)
    grown.sum_duplicates()
    grown.eliminate_zeros()
    return grown
