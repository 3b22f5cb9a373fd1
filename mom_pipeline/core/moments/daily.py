"""One day of the moments: from yesterday's sums and the changed rows to today's.

The state of a day is a sum over users, seen through the basis of the last full rebuild (its
anchor): H, T_B, the first moment, and pair counts among frequent items. What a day computes
from there (`daily_classes`) depends on that state and the anchor alone, never on the path that
led to it. So day by day, in one go, or after late data, the same rows give the same model up to
rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs, working_precision
from mom_pipeline.core.moments.anchored import Anchor, AnchoredMoments, SpanSums
from mom_pipeline.core.moments.halves import in_first_half
from mom_pipeline.core.moments.passes import MomentsPass
from mom_pipeline.core.moments.sums import Estimator
from mom_pipeline.core.moments.users import UserRows, Users, UsersInMemory
from mom_pipeline.core.threads import small_work
from mom_pipeline.core.types import Array, Csr, Float64


@dataclass(frozen=True)
class DayMoments:
    """The sums over all users that a day leaves behind.

    frequent_items: (F,) positions, the most frequent at the rebuild.
    pair_counts: (F, F) users who took both items; exact, whole numbers.
    passes: products with M2 that the anchor took; 0 after an update.
    half: the sums over the first half of the users, which a rebuild has at hand.
    """

    moments: AnchoredMoments
    frequent_items: Array
    pair_counts: Float64
    passes: int = 0
    half: AnchoredMoments | None = None


@dataclass(frozen=True)
class DailySettings:
    """What the sums of a day depend on.

    capture_threshold: rebuild below this share; see `capture`.
    """

    estimator: Estimator
    n_components: int
    n_frequent: int
    capture_threshold: float
    seed: int


@dataclass(frozen=True)
class DayStep:
    """How the sums of a day came about.

    reason: why the day was computed in full; empty when it was not.
    changed: positions of the users whose rows were visited.
    captured: share of M2 that the span held before a rebuild; 1 where nothing was there before.
    """

    state: DayMoments
    reason: str
    changed: Array
    captured: float


def advance(
    X: Csr,
    yesterday: tuple[Csr, DayMoments] | None,
    reason: str,
    settings: DailySettings,
    visiting: Callable[[Csr], Users] = UsersInMemory,
) -> DayStep:
    """Compute the sums of a day: from yesterday's where these are given, otherwise in full.

    yesterday: the rows and the sums of the day before; None with the reason why not.
    visiting: how all users are visited when the day is computed in full.
    """
    with small_work(X.nnz):
        return _advance(X, yesterday, reason, settings, visiting)


def _advance(
    X: Csr,
    yesterday: tuple[Csr, DayMoments] | None,
    reason: str,
    settings: DailySettings,
    visiting: Callable[[Csr], Users],
) -> DayStep:
    captured = 1.0
    if yesterday is not None:
        before, state = yesterday
        changed = changed_rows(before, X)
        state = update(state, grown(before, X.shape)[changed], X[changed])
        captured = capture(X, state.moments, settings.n_components, settings.seed)
        if captured >= settings.capture_threshold:
            return DayStep(state, "", changed, captured)
        reason = (
            f"the basis of the last rebuild holds {captured:.3f} of the second moment, "
            f"below {settings.capture_threshold:g}"
        )
    state = rebuild(visiting(X), settings)
    return DayStep(state, reason, np.flatnonzero(np.diff(X.indptr)), captured)


def rebuild(users: Users, settings: DailySettings) -> DayMoments:
    """Fix a new anchor, the leading K' eigenvectors of today's M2, and sum over all users."""
    estimator = settings.estimator
    sums = users.add_up(MomentsPass(estimator))
    if sums.triple_weight <= 0:
        raise InvalidInteractions(
            f"the estimator {estimator.name!r} found no user with the events that a triple needs "
            f"among {sums.n_users} users; lower the filters of the matrix, or start on a later day"
        )
    precision = working_precision(settings.n_components, users.shape[1])
    M2 = users.second_moment(sums, estimator, precision)
    pairs = top_eigenpairs(M2, settings.n_components, np.random.default_rng(settings.seed))
    frequent = np.argsort(-sums.item_users, kind="stable")[: settings.n_frequent]
    frequent = np.sort(frequent[sums.item_users[frequent] > 0])
    anchor = Anchor(pairs.vectors, M2.item_scale, estimator)
    found = users.add_up(AnchoredPass(anchor, frequent))
    return DayMoments(
        AnchoredMoments.through(anchor, found.half + found.others),
        frequent,
        found.pair_counts,
        pairs.passes,
        AnchoredMoments.through(anchor, found.half),
    )


@dataclass(frozen=True)
class AnchoredSums:
    """What a rebuild sums through its new anchor: the halves of the users, and pair counts."""

    half: SpanSums
    others: SpanSums
    pair_counts: Float64

    def __add__(self, other: Self) -> Self:
        return replace(
            self,
            half=self.half + other.half,
            others=self.others + other.others,
            pair_counts=self.pair_counts + other.pair_counts,
        )


@dataclass(frozen=True)
class AnchoredPass:
    """All moments seen through an anchor, and how many users took two of the frequent items."""

    anchor: Anchor
    frequent_items: Array

    def __call__(self, rows: UserRows) -> AnchoredSums:
        first = in_first_half(rows.positions)
        half, others = (SpanSums.of(rows.X[part], self.anchor) for part in (first, ~first))
        return AnchoredSums(half, others, pair_counts(rows.X, self.frequent_items))


def update(yesterday: DayMoments, old_rows: Csr, new_rows: Csr) -> DayMoments:
    """Subtract the old rows of the changed users and add their new ones: exact up to rounding.

    old_rows, new_rows: (changed users, D), D today's items.
    """
    extended = with_items(yesterday.moments, new_rows.shape[1])
    frequent = yesterday.frequent_items
    counts = pair_counts(new_rows, frequent) - pair_counts(old_rows, frequent)
    return DayMoments(extended.update(old_rows, new_rows), frequent, yesterday.pair_counts + counts)


def changed_rows(before: Csr, now: Csr) -> Array:
    """Return the positions of the users whose rows differ, ascending. Rows and columns that
    `before` does not have yet count as empty.
    """
    difference = now - grown(before, now.shape)
    difference.eliminate_zeros()
    return np.flatnonzero(np.diff(difference.indptr))


def grown(X: Csr, shape: tuple[int, int]) -> Csr:
    """Return X with empty rows and columns at its end, up to `shape`."""
    if X.shape[0] > shape[0] or X.shape[1] > shape[1]:
        raise InvalidInteractions(
            f"a matrix of {X.shape} does not fit into {shape}: positions only ever grow; "
            "rebuild in full"
        )
    indptr = np.pad(X.indptr, (0, shape[0] - X.shape[0]), mode="edge")
    return sparse.csr_array((X.data, X.indices, indptr), shape=shape)


def capture(X: Csr, moments: AnchoredMoments, n_components: int, seed: int) -> float:
    """Return the share of the leading eigenvalues of today's M2 that the span still holds.

    Items that came after the anchor are scaled by their users of today. Their rows of the basis
    are zero, so this changes nothing but how much of M2 is seen to lie outside of the span.
    """
    anchor = moments.anchor
    today = anchor.estimator.item_scale(moments.sums.item_users)
    scaled = replace(anchor, item_scale=np.where(anchor.known, anchor.item_scale, today))
    rng = np.random.default_rng(seed)
    return replace(moments, anchor=scaled).subspace_capture(X, n_components, rng)


def with_items(moments: AnchoredMoments, n_items: int) -> AnchoredMoments:
    """Return the same moments among more items.

    An item that came after the anchor gets a zero row of the basis and a scale of 1. Nothing is
    approximated by that: H and T_B stay the moments of all users seen through the basis, whose
    span simply has no direction for the new item. Its probability is 0 in every class until the
    next rebuild, and `capture` falls as such items gain weight.
    """
    sums = moments.sums
    if n_items == len(sums.item_events):
        return moments
    return replace(
        moments,
        anchor=extended(moments.anchor, n_items),
        sums=replace(
            sums,
            item_events=with_rows(sums.item_events, n_items),
            item_users=with_rows(sums.item_users, n_items),
            pair_diagonal=with_rows(sums.pair_diagonal, n_items),
        ),
    )


def extended(anchor: Anchor, n_items: int) -> Anchor:
    """Return the anchor with zero rows, of scale 1, for the items that came after it."""
    item_scale = np.ones(n_items)
    item_scale[: len(anchor.item_scale)] = anchor.item_scale
    return replace(anchor, basis=with_rows(anchor.basis, n_items), item_scale=item_scale)


def with_rows(A: Array, n: int) -> Array:
    """Return A with zero rows at its end, up to n."""
    return np.pad(A, [(0, n - len(A)), *[(0, 0)] * (A.ndim - 1)])


def pair_counts(X: Csr, items: Array) -> Float64:
    """Return how many users took both of two items, (F, F)."""
    taken = X[:, items]
    taken.data = np.ones_like(taken.data)
    return np.asarray((taken.T @ taken).toarray(), dtype=np.float64)
