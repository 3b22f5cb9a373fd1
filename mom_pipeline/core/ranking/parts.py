"""The parts of the score: what each moment says about every item, for a block of histories.

Each part gives its plain scores of all items (`scores`) and of some (`at`); those that are sums
over the items of a history also say what each of these adds (`by_entry`). How they become one
score stands in `score.py`.

    G = X^T diag(n^-e) X,     X binary, n the items of a user

is the second moment with a user's weight: e = 1 is that of the balanced estimator, at e = 1/2
the pairs of busy users count for more.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import as_binary, with_narrow_indices
from mom_pipeline.core.linear_algebra.inverse import invert_in_place
from mom_pipeline.core.moments.sums import scaled_rows_and_columns
from mom_pipeline.core.ranking.topn import cut
from mom_pipeline.core.types import Array, Csr, Float64

POPULARITY, PAIRS, EASE, LOW_PASS, COMPONENTS, OWN = (
    "popularity",
    "pairs",
    "ease",
    "low-pass",
    "components",
    "own",
)

# EASE was the better with the pairs of busy users in it.
_EASE_USER_EXPONENT = 0.5
# Up to this many items the second moment is inverted: 256 MB, and seconds.
MAX_INVERTED_ITEMS = 8192
# Pairs are written out in full, up to 64 MB, where at least this share of them occurs: a row of
# them is then added up some ten times as fast.
_DENSE_PAIRS, _DENSE_SHARE = 16_000_000, 0.1
# Other pairs are added up for a few users in one call. Their pairs, 4 MB unless one user has
# more, stay in a core's cache.
_PAIRS_AT_A_TIME, _USERS_AT_A_TIME = 500_000, 32
# Single pairs are looked up in rows written out in full, 4 MB of them at a time: a search in
# the sparse rows takes some five times as long.
_PANEL = 1_000_000


@dataclass(frozen=True)
class Histories:
    """Rows of users in the forms that the parts read.

    X: (users, D), canonical.  posterior: gives P[component | user], (users, K), of such rows.
    known: these memberships, where they are known already.
    """

    X: Csr
    posterior: Callable[[Csr], Array]
    known: Array | None = None

    @cached_property
    def memberships(self) -> Array:
        """P[component | user], (users, K)."""
        return self.posterior(self.X) if self.known is None else self.known

    @cached_property
    def once(self) -> Csr:
        """The histories as sets, which the second moment is about: every item counts once, or
        less where it was taken long ago.
        """
        once = copy(self.X)
        once.data = np.minimum(self.X.data, 1.0)
        return once

    @cached_property
    def seen(self) -> tuple[Array, Array]:
        """Row and item of every entry of X."""
        return owners(self.X), self.X.indices

    def block(self, users: slice) -> "Histories":
        """Return some rows, with their memberships where those are known."""
        known = None if self.known is None else self.known[users]
        return Histories(self.X[users], self.posterior, known)


class Part(Protocol):
    """One part of the score."""

    name: ClassVar[str]

    def scores(self, rows: Histories) -> Array: ...
    def at(self, rows: Histories, items: Array) -> Array: ...


class HistoryPart(Part, Protocol):
    """A part that is a sum over the items of a history."""

    def by_entry(self, X: Csr, items: Array) -> Array:
        """Return what each entry of X adds to each item of its user, (entries, n).

        X: (users, D), read as ones.  items: (users, n) positions.
        """
        ...


def pair_counts(X: Csr, user_exponent: float) -> Csr:
    """Return G in single precision, (D, D) sparse; counts in X are read as ones."""
    n = np.maximum(np.diff(X.indptr), 1)
    half = scaled_rows_and_columns(
        as_binary(X), n ** (-user_exponent / 2), np.ones(X.shape[1]), np.float32
    )
    return with_narrow_indices((half.T @ half).tocsr())


@dataclass(frozen=True)
class Popularity:
    """How many users took an item, the same for every history. item_users: (D,)."""

    name: ClassVar[str] = POPULARITY
    item_users: Float64

    def scores(self, rows: Histories) -> Array:
        return np.broadcast_to(self.item_users.astype(np.float32), rows.X.shape).copy()

    def at(self, rows: Histories, items: Array) -> Array:
        return self.item_users[items].astype(np.float32)


@dataclass(frozen=True)
class Pairs:
    """How often a candidate goes with the history's items.

        score_y = sum_h x_h (c_h^-history G_hy c_y^-candidate)^sharpness

    powers: G^sharpness entry by entry, (D, D) sparse.  item_users: c, (D,).
    user_exponent: e in G.
    """

    name: ClassVar[str] = PAIRS
    powers: Csr
    item_users: Float64
    user_exponent: float
    sharpness: float
    history_exponent: float = 0.5
    candidate_exponent: float = 0.3

    @classmethod
    def from_rows(cls, X: Csr, user_exponent: float = 1.0, sharpness: float = 1.0) -> Self:
        """Count the pairs of every user."""
        item_users = np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)
        counted = cls(pair_counts(X, user_exponent), item_users, user_exponent, 1.0)
        return counted.sharpened(sharpness)

    def sharpened(self, sharpness: float) -> Self:
        """Return the same pairs to another power."""
        if sharpness == self.sharpness:
            return self
        G = self.powers
        data = G.data ** np.float32(sharpness / self.sharpness)
        powers = sparse.csr_array((data, G.indices, G.indptr), shape=G.shape, copy=False)
        return replace(self, powers=powers, sharpness=sharpness)

    def scores(self, rows: Histories) -> Array:
        sums = self.history_sums(rows.once, (self.history_exponent,))[0]
        sums *= self._candidate_scale
        return sums

    def at(self, rows: Histories, items: Array) -> Array:
        return _added_up(rows.once, self.by_entry(rows.once, items))

    def by_entry(self, X: Csr, items: Array) -> Array:
        scales = self._candidate_scale[items][owners(X)]
        scales *= self._scale(X.indices, self.history_exponent)[:, None]
        scales *= _entries_at(self.powers, X, items)
        return scales

    def history_sums(self, X: Csr, exponents: Sequence[float]) -> Array:
        """Return sum_h x_h c_h^(-exponent sharpness) G_hy^sharpness: (exponents, users, D)."""
        sums = np.empty((len(exponents), *X.shape), dtype=np.float32)
        scales = np.stack([self._scale(X.indices, e) for e in exponents], axis=1)
        weights = (X.data[:, None] * scales).astype(np.float32)
        if self._dense is not None and X.shape[0] > 1:
            for column, own in enumerate(weights.T):
                W = sparse.csr_array((own, X.indices, X.indptr), shape=X.shape, copy=False)
                sums[column] = W @ self._dense
            return sums
        pairs_before = np.append(0, np.cumsum(np.diff(self.powers.indptr)[X.indices]))[X.indptr]
        for users in cut(pairs_before, _PAIRS_AT_A_TIME, _USERS_AT_A_TIME):
            bounds = X.indptr[users.start : users.stop + 1]
            entries = slice(bounds[0], bounds[-1])
            own_sums = _stacked(self.powers[X.indices[entries]], bounds - bounds[0])
            sums[:, users] = (own_sums @ weights[entries]).T.reshape(len(exponents), -1, X.shape[1])
        return sums

    def candidate_scale(self, exponent: float) -> Array:
        """Return c_y^(-exponent sharpness), (D,)."""
        return self._scale(slice(None), exponent)

    @cached_property
    def _candidate_scale(self) -> Array:
        return self.candidate_scale(self.candidate_exponent)

    @cached_property
    def _dense(self) -> Array | None:
        size = self.powers.shape[0] ** 2
        if size > _DENSE_PAIRS or self.powers.nnz < _DENSE_SHARE * size:
            return None
        return np.asarray(self.powers.toarray())

    def _scale(self, items: Array | slice, exponent: float) -> Array:
        users = np.maximum(self.item_users[items], 1.0)
        return np.asarray(users ** -(exponent * self.sharpness), dtype=np.float32)


@dataclass(frozen=True)
class Ease:
    """Pairs that remain when the other items of the history have explained their share.

        P = (G + ridge g I)^-1,    B = I - P diag(P)^-1,    score = x B

    g is the mean of G's diagonal. B is the regression of every item on all others with the
    given ridge (Steck 2019, "Embarrassingly shallow autoencoders"), from the second moment alone.
    matrix: B, (D, D), zero on its diagonal.
    """

    name: ClassVar[str] = EASE
    matrix: Array

    @classmethod
    def from_rows(cls, X: Csr, ridge: float) -> Self:
        """Invert the second moment of X; D is at most MAX_INVERTED_ITEMS."""
        return cls.for_ridges(X, (ridge,))[ridge]

    @classmethod
    def for_ridges(cls, X: Csr, ridges: Sequence[float]) -> dict[float, Self]:
        """Return the part for each of the ridges."""
        if not invertible(X):
            raise InvalidSetting(
                f"the EASE part inverts a {X.shape[1]} x {X.shape[1]} matrix, at most "
                f"{MAX_INVERTED_ITEMS} items are allowed; set its weight to 0"
            )
        if min(ridges) <= 0:
            raise InvalidSetting(f"ridge of the EASE part must be above 0, found {min(ridges)}")
        G = pair_counts(X, _EASE_USER_EXPONENT)
        return {ridge: cls._inverted(G.toarray(), ridge) for ridge in ridges}

    @classmethod
    def _inverted(cls, G: Array, ridge: float) -> Self:
        diagonal = np.einsum("ii->i", G)
        # Rows of items that nobody took stay invertible.
        diagonal += max(ridge * float(diagonal.mean()), float(np.finfo(np.float32).eps))
        if not invert_in_place(G):
            raise np.linalg.LinAlgError("the second moment with its ridge is not positive definite")
        G /= -np.diag(G)
        np.fill_diagonal(G, 0.0)
        return cls(G)

    def scores(self, rows: Histories) -> Array:
        return np.asarray(rows.once.astype(np.float32) @ self.matrix)

    def at(self, rows: Histories, items: Array) -> Array:
        return _added_up(rows.once, self.by_entry(rows.once, items))

    def by_entry(self, X: Csr, items: Array) -> Array:
        return np.asarray(self.matrix[X.indices[:, None], items[owners(X)]])


def invertible(X: Csr) -> bool:
    """Tell whether the second moment of X is small enough to be inverted."""
    return int(X.shape[1]) <= MAX_INVERTED_ITEMS


@dataclass(frozen=True)
class Components:
    """P[y | u] = sum_k P[y | k] P[k | u] (paper, equation 9). item_probs: O, (D, K)."""

    name: ClassVar[str] = COMPONENTS
    item_probs: Array

    def scores(self, rows: Histories) -> Array:
        return np.asarray(rows.memberships @ self.item_probs.T)

    def at(self, rows: Histories, items: Array) -> Array:
        return np.einsum("uk,unk->un", rows.memberships, self.item_probs[items])


@dataclass(frozen=True)
class Own:
    """What a user took before: what is taken again and again is taken once more.

        score_y = log(1 + x_y) / (the largest of the user),     0 for any other item

    For lists that may hold items of the history; elsewhere it says nothing.
    """

    name: ClassVar[str] = OWN

    def scores(self, rows: Histories) -> Array:
        return np.asarray(self._shares(rows).toarray())

    def at(self, rows: Histories, items: Array) -> Array:
        return np.take_along_axis(self.scores(rows), items, axis=1)

    def _shares(self, rows: Histories) -> Csr:
        shares = copy(rows.X)
        shares.data = np.log1p(rows.X.data).astype(np.float32)
        lengths = np.diff(shares.indptr)
        taken = np.flatnonzero(lengths)
        if len(taken):
            largest = np.maximum.reduceat(shares.data, shares.indptr[taken])
            shares.data /= np.repeat(largest, lengths[taken])
        return shares


def _stacked(M: Csr, bounds: Array) -> sparse.csc_array:
    """Return the matrix whose product adds up the rows of M user by user: (users D, entries).

    Column e is row e of M, moved down to the D rows of its user.
    M: (entries, D), written to.  bounds: (users + 1,), where the entries of each user begin.
    """
    for user, (start, stop) in enumerate(pairwise(M.indptr[bounds])):
        M.indices[start:stop] += user * M.shape[1]
    shape = ((len(bounds) - 1) * M.shape[1], M.shape[0])
    return sparse.csc_array((M.data, M.indices, M.indptr), shape=shape, copy=False)


def owners(X: Csr) -> Array:
    """Return the row of every entry of X."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def _added_up(X: Csr, terms: Array) -> Array:
    """Return the sum of what the entries of each row add, (users, n). terms: (entries, n)."""
    by_user = (X.data, np.arange(X.nnz), X.indptr)
    return np.asarray(sparse.csr_array(by_user, shape=(X.shape[0], X.nnz)) @ terms)


def _entries_at(M: Csr, X: Csr, items: Array) -> Array:
    """Return M at (item of an entry, listed item of its user), (entries, n). items: (users, n)."""
    used, row = np.unique(X.indices, return_inverse=True)
    listed, column = np.unique(items, return_inverse=True)
    column, owner = column.reshape(items.shape), owners(X)
    values = np.empty((X.nnz, items.shape[1]), dtype=M.dtype)
    order = np.argsort(row, kind="stable")
    step = max(1, _PANEL // max(len(listed), 1))
    for start in range(0, len(used), step):
        panel = M[used[start : start + step]][:, listed].toarray()
        own = order[slice(*np.searchsorted(row, (start, start + step), sorter=order))]
        values[own] = panel[row[own, None] - start, column[owner[own]]]
    return values
