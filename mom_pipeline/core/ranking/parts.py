"""The parts of the score: what each moment says about every item, for a block of histories.

Each part gives its plain scores of all items (`scores`) and of some (`at`); those that are sums
over the items of a history also what each of these adds, (entries, n) (`by_entry`).
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.moments.cooccurrences import Cooccurrences, count_cooccurrences
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.item_matrix import ItemMatrix, owners
from mom_pipeline.core.types import Array, Csr, Float64

POPULARITY, PAIRS, EASE = "popularity", "pairs", "ease"
LOW_PASS, COMPONENTS, OWN = "low-pass", "components", "own"


@dataclass(frozen=True)
class Histories:
    """Rows of users as the parts read them.

    X: (users, D), canonical.  posterior: gives P[component | user], (users, K), of such rows.
    known: these memberships, where they are known already.
    """

    X: Csr
    posterior: Callable[[Csr], Array]
    known: Array | None = None

    @cached_property
    def memberships(self) -> Array:
        return self.posterior(self.X) if self.known is None else self.known

    @cached_property
    def once(self) -> Csr:
        """The histories as sets: every item counts once, or less where it was long ago."""
        once = copy(self.X)
        once.data = np.minimum(self.X.data, 1.0)
        return once

    @cached_property
    def seen(self) -> tuple[Array, Array]:
        """Row and item of every entry of X."""
        return owners(self.X), self.X.indices

    def block(self, users: slice | Array) -> "Histories":
        """Return some rows, with their memberships where those are known."""
        known = None if self.known is None else self.known[users]
        return Histories(self.X[users], self.posterior, known)


class Part(Protocol):
    """One part of the score."""

    name: ClassVar[str]

    def scores(self, rows: Histories) -> Array: ...
    def at(self, rows: Histories, items: Array) -> Array: ...


@dataclass(frozen=True)
class Popularity:
    """How many users had an item, the same for every history. item_users: (D,)."""

    name: ClassVar[str] = POPULARITY
    item_users: Float64

    def scores(self, rows: Histories) -> Array:
        return np.broadcast_to(self.item_users.astype(np.float32), rows.X.shape).copy()

    def at(self, rows: Histories, items: Array) -> Array:
        return self.item_users[items].astype(np.float32)


@dataclass(frozen=True)
class Pairs:
    """Co-occurrences G of a candidate with the items of the history.

        score_y = sum_h x_h (c_h^-history G_hy c_y^-candidate)^sharpness

    powers: G^sharpness entry by entry.  item_users: c, (D,).  user_exponent: e in G.
    """

    name: ClassVar[str] = PAIRS
    powers: ItemMatrix
    item_users: Float64
    user_exponent: float
    sharpness: float
    history_exponent: float = 0.5
    candidate_exponent: float = 0.3

    @classmethod
    def from_rows(cls, X: Csr, user_exponent: float = 1.0, sharpness: float = 1.0) -> Self:
        return cls.from_counts(count_cooccurrences(UsersInMemory(X), user_exponent), sharpness)

    @classmethod
    def from_counts(cls, counts: Cooccurrences, sharpness: float = 1.0) -> Self:
        item_users = counts.item_users.astype(np.float64)
        plain = cls(ItemMatrix(counts.matrix()), item_users, counts.user_exponent, 1.0)
        return plain.sharpened(sharpness)

    def sharpened(self, sharpness: float) -> Self:
        if sharpness == self.sharpness:
            return self
        G = self.powers.entries
        data = G.data ** np.float32(sharpness / self.sharpness)
        powers = sparse.csr_array((data, G.indices, G.indptr), shape=G.shape, copy=False)
        return replace(self, powers=ItemMatrix(powers), sharpness=sharpness)

    def scores(self, rows: Histories) -> Array:
        sums = self.history_sums(rows.once, (self.history_exponent,))[0]
        sums *= self._candidate_scale
        return sums

    def at(self, rows: Histories, items: Array) -> Array:
        return added_up(rows.once, self.by_entry(rows.once, items))

    def by_entry(self, X: Csr, items: Array) -> Array:
        scales = self._candidate_scale[items][owners(X)]
        scales *= self._scale(X.indices, self.history_exponent)[:, None]
        scales *= self.powers.at(X, items)
        return scales

    def history_sums(self, X: Csr, exponents: Sequence[float]) -> Array:
        """Return sum_h x_h c_h^(-exponent sharpness) G_hy^sharpness: (exponents, users, D)."""
        scales = np.stack([self._scale(X.indices, e) for e in exponents], axis=1)
        return self.powers.sums(X, (X.data[:, None] * scales).astype(np.float32))

    def candidate_scale(self, exponent: float) -> Array:
        """Return c_y^(-exponent sharpness), (D,)."""
        return self._scale(slice(None), exponent)

    @cached_property
    def _candidate_scale(self) -> Array:
        return self.candidate_scale(self.candidate_exponent)

    def _scale(self, items: Array | slice, exponent: float) -> Array:
        users = np.maximum(self.item_users[items], 1.0)
        return np.asarray(users ** -(exponent * self.sharpness), dtype=np.float32)


@dataclass(frozen=True)
class ComponentsPart:
    """P[y | u] = sum_k P[y | k] P[k | u] (paper, equation 9). item_probs: O, (D, K)."""

    name: ClassVar[str] = COMPONENTS
    item_probs: Array

    def scores(self, rows: Histories) -> Array:
        return np.asarray(rows.memberships @ self.item_probs.T)

    def at(self, rows: Histories, items: Array) -> Array:
        return np.einsum("uk,unk->un", rows.memberships, self.item_probs[items])

    def user_factors(self, rows: Histories) -> Array:
        return rows.memberships

    def item_factors(self, items: Array) -> Array:
        return self.item_probs[items]

    def norms(self) -> Array:
        """Return the length of every item's factors, (D,)."""
        return np.sqrt(np.einsum("yk,yk->y", self.item_probs, self.item_probs))


@dataclass(frozen=True)
class Own:
    """The user's own history, for lists that may hold it: log(1 + x_y) / the user's largest."""

    name: ClassVar[str] = OWN

    def scores(self, rows: Histories) -> Array:
        shares = copy(rows.X)
        shares.data = np.log1p(rows.X.data).astype(np.float32)
        lengths = np.diff(shares.indptr)
        taken = np.flatnonzero(lengths)
        if len(taken):
            largest = np.maximum.reduceat(shares.data, shares.indptr[taken])
            shares.data /= np.repeat(largest, lengths[taken])
        return np.asarray(shares.toarray())

    def at(self, rows: Histories, items: Array) -> Array:
        return np.take_along_axis(self.scores(rows), items, axis=1)


def added_up(X: Csr, terms: Array) -> Array:
    """Return the sum of what the entries of each row add, (users, n). terms: (entries, n)."""
    by_user = (X.data, np.arange(X.nnz), X.indptr)
    return np.asarray(sparse.csr_array(by_user, shape=(X.shape[0], X.nnz)) @ terms)
