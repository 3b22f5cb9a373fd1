"""One day of the moments: from yesterday's sums and the changed rows to today's, or in full.

A day without a yesterday fixes an anchor and sums over all users, as a fit does. The model depends
on the sums and the anchor alone, never on the days that led to them.
"""

import sys
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.interactions import changed_rows, resized
from mom_pipeline.core.linear_algebra.eigenpairs import (
    block_width,
    guarded_width,
    ritz_values_beyond,
    top_eigenpairs,
    working_precision,
)
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.cooccurrences import (
    MAX_PAIR_BYTES,
    Cooccurrences,
    count_cooccurrences,
    most_pairs,
)
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.second_moment import SecondMoment
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.moments.users import (
    AnchoredPass,
    MomentsPass,
    Users,
    UsersInMemory,
    in_first_half,
)
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr

# Interactions of changed users that are in memory at a time.
_PAIRS_PER_BLOCK = 4_000_000


@dataclass(frozen=True)
class MomentSettings:
    """What the sums depend on."""

    estimator: Estimator
    n_components: int
    anchor_width: int  # columns of the basis: K, or more where days will follow
    seed: int = 0
    tol: float = 1e-5
    max_passes: int = 10
    dtype: type[np.floating] | None = None  # of the products; None for what suits the size
    halves: bool = False  # keep the sums of one half of the users apart
    capture_threshold: float = 0.0  # below this `captured_share` a day is in full
    pair_exponent: float | None = None  # e of the co-occurrences; None to keep none
    pair_bytes: int = MAX_PAIR_BYTES  # what these may take
    pair_drift: float = np.inf  # a day is in full when more of them changed since the last


def width_for_days(n_components: int) -> int:
    """Return how wide an anchor is where days will follow: 1.25 K, at least K + 8."""
    return guarded_width(n_components, sys.maxsize)


def fix_anchor(users: Users, settings: MomentSettings, warm_start: Array | None = None) -> Anchor:
    """Leading eigenvectors of M2 (paper, steps 1 and 2), from columns (D, any) where given."""
    estimator, D = settings.estimator, users.shape[1]
    sums = users.add_up(MomentsPass(estimator))
    if sums.triple_weight <= 0:
        raise TooLittleData(
            f"the estimator {estimator.name!r} found no user with the events that a triple needs "
            f"(3 where draws are distinct) among {sums.n_users} users; use estimator='paper' or "
            "'balanced', lower the filters of the matrix, or add days"
        )
    dtype = settings.dtype or working_precision(settings.n_components, D)
    M2 = SecondMoment.from_users(users, sums, estimator, dtype)
    width = min(settings.anchor_width, D)
    k = width if width > guarded_width(settings.n_components, D) else settings.n_components
    rng, taken = np.random.default_rng(settings.seed), sums.item_users > 0
    if warm_start is None:
        warm_start = rng.standard_normal((D, block_width(k, D)), dtype=np.float32)
    pairs = top_eigenpairs(
        M2,
        k,
        rng,
        # An item without users has no entry in an eigenvector: a start without any keeps it so.
        warm_start=warm_start * taken[:, None],
        tol=settings.tol,
        max_passes=settings.max_passes,
    )
    basis = pairs.vectors[:, :width]
    basis[~taken] = 0.0  # the rounding of a direct solver
    return Anchor(
        basis=basis,
        item_scale=M2.item_scale,
        estimator=estimator,
        passes=pairs.passes,
        residual=pairs.residual,
    )


def sum_users(users: Users, anchor: Anchor, settings: MomentSettings) -> AnchoredSums:
    """Sum over all users through an anchor: one pass."""
    return users.add_up(AnchoredPass(anchor, settings.halves))


@dataclass(frozen=True)
class DayStep:
    """The sums of a day, and how they came about."""

    anchor: Anchor
    sums: AnchoredSums
    reason: str  # why the day was computed in full; empty when it was not
    changed: Array  # positions of the users whose rows were visited
    captured_share: float  # of M2, what the span held before a rebuild
    pairs: "AnchoredCooccurrences | None" = None


@dataclass(frozen=True)
class AnchoredCooccurrences:
    """Co-occurrences as of the last rebuild, and what changed since."""

    base: Cooccurrences
    change: Cooccurrences

    @classmethod
    def from_users(cls, users: Users, settings: MomentSettings) -> Self | None:
        """Count those of all users; None where the settings keep none."""
        if settings.pair_exponent is None:
            return None
        base = count_cooccurrences(users, settings.pair_exponent, settings.pair_bytes)
        return cls(base, base.nothing())

    def update(self, removed: Csr, added: Csr) -> Self:
        return replace(self, change=self.change + self.base.change(removed, added))

    @cached_property
    def counts(self) -> Cooccurrences:
        """Those of the day."""
        return self.base.after(self.change)

    @property
    def drift(self) -> float:
        """The share of the day's co-occurrences that came or went since the rebuild."""
        pairs = self.base.units.sum() + self.change.units.sum()
        return float(np.abs(self.change.units).sum() / max(pairs, 1))


@dataclass(frozen=True)
class Yesterday:
    """The rows and the sums of the day before, with their anchor."""

    X: Csr
    anchor: Anchor
    sums: AnchoredSums
    pairs: AnchoredCooccurrences | None = None


def advance(
    X: Csr,
    yesterday: Yesterday | None,
    reason: str,
    settings: MomentSettings,
    users: Users | None = None,
) -> DayStep:
    """The sums of a day: from yesterday's where given, else in full, for `reason`."""
    users, share = UsersInMemory(X) if users is None else users, 1.0
    if yesterday is not None:
        changed = changed_rows(yesterday.X, X)
        reason = _too_many_pairs(X, changed, settings)
        if not reason:
            step = _next_day(X, users, yesterday, changed, settings)
            share, reason = step.captured_share, _drifted(step, settings)
            if not reason:
                return step
    anchor = fix_anchor(users, settings)
    sums = sum_users(users, anchor, settings)
    pairs = AnchoredCooccurrences.from_users(users, settings)
    return DayStep(anchor, sums, reason, np.flatnonzero(np.diff(X.indptr)), share, pairs)


def _too_many_pairs(X: Csr, changed: Array, settings: MomentSettings) -> str:
    """Why the changed users are not counted on their own: what they may add exceeds its bytes."""
    if settings.pair_exponent is None:
        return ""
    n = np.diff(X.indptr)[changed].astype(np.float64)
    if (n * (n + 1)).sum() / 2 <= most_pairs(settings.pair_bytes):
        return ""
    megabytes = settings.pair_bytes / 2**20
    return f"the pairs of the {len(changed):,} users who changed may exceed {megabytes:,.0f} MB"


def _next_day(
    X: Csr, users: Users, yesterday: Yesterday, changed: Array, settings: MomentSettings
) -> DayStep:
    """Subtract the old rows of the changed users and add their new ones, in blocks of them."""
    before, anchor = resized(yesterday.X, X.shape), yesterday.anchor.with_items(X.shape[1])
    sums, pairs = yesterday.sums, yesterday.pairs
    sizes = np.append(0, np.cumsum(np.diff(before.indptr)[changed] + np.diff(X.indptr)[changed]))
    # Also where nobody changed: there may be items that the sums do not have yet.
    for block in cut(sizes, _PAIRS_PER_BLOCK, len(changed)) or [slice(0)]:
        own, half = changed[block], in_first_half(changed[block])
        removed, added = before[own], X[own]
        sums = sums.update(removed, added, anchor, in_half=np.concatenate([half, half]))
        if pairs is not None:
            pairs = pairs.update(removed, added)
    share = captured_share(users, anchor, sums, settings)
    return DayStep(anchor, sums, "", changed, share, pairs)


def _drifted(step: DayStep, settings: MomentSettings) -> str:
    """Why what the last rebuild fixed does not hold any more; empty where it does."""
    if step.captured_share < settings.capture_threshold:
        return (
            f"the basis of the last rebuild holds {step.captured_share:.3f} of the second moment, "
            f"below {settings.capture_threshold:g}"
        )
    if step.pairs is not None and step.pairs.drift > settings.pair_drift:
        return (
            f"{step.pairs.drift:.2f} of the pairs changed since the last rebuild, above "
            f"{settings.pair_drift:g}"
        )
    return ""


def captured_share(
    users: Users, anchor: Anchor, sums: AnchoredSums, settings: MomentSettings
) -> float:
    """Share of the K leading eigenvalues of M2 in the span, against two narrow passes beyond it."""
    today = anchor.estimator.item_scale(sums.first.item_users)
    scaled = replace(anchor, item_scale=np.where(anchor.known, anchor.item_scale, today))
    H = sums.pairs / sums.first.pair_weight
    rng = np.random.default_rng(settings.seed)
    widened = ritz_values_beyond(operator(users, scaled, sums.first), anchor.basis, H, rng)
    held, K = np.linalg.eigvalsh(H)[::-1], settings.n_components
    return float(np.maximum(held[:K], 0).sum() / np.maximum(widened[:K], 0).sum())


def operator(users: Users, anchor: Anchor, sums: MomentSums) -> SecondMoment:
    """Return M2 of the users in the anchor's scaling, in the precision of its basis."""
    dtype = anchor.basis.dtype.type
    return SecondMoment.from_users(users, sums, anchor.estimator, dtype, anchor.item_scale)
