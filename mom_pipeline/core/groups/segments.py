"""Sums of segments of users, such as countries: any union of them, or all but some, is a model.

All are seen through one anchor, so adding and subtracting gives what a fit on those users through
it has. Additive over users: each belongs to one segment, whatever day an event was.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np

from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.users import UserRows, Users
from mom_pipeline.core.types import Array, Float64

# What the sums of all segments may take.
_MOST_BYTES = 2**30
_PERMUTATIONS = 999


@dataclass(frozen=True)
class SegmentSums:
    """The sums of every segment: `parts[i]` of the users with label i."""

    parts: tuple[AnchoredSums, ...]

    @classmethod
    def from_users(cls, users: Users, labels: Array, n_segments: int, anchor: Anchor) -> Self:
        """Sum over all users: one pass. labels: (N,) in 0..n_segments - 1, -1 for none."""
        needed = n_segments * anchor.basis.nbytes
        if needed > _MOST_BYTES:
            raise TooLittleData(
                f"the sums of {n_segments:,} segments of {anchor.n_items:,} items would take "
                f"{needed / 2**30:.1f} GB, above {_MOST_BYTES / 2**30:.0f}; use a column with "
                "fewer values"
            )
        return cls(users.add_up(_SegmentPass(labels, n_segments, anchor)).parts)

    def of(self, segments: Array) -> AnchoredSums:
        """Return the sums of a union of segments, (any,), at least one."""
        return reduce(add, (self.parts[i] for i in segments.tolist()))

    def __add__(self, other: Self) -> Self:
        return type(self)(tuple(map(add, self.parts, other.parts)))

    def as_arrays(self) -> dict[str, Array]:
        """Return all sums as named arrays, to be stored; `from_arrays` reads them back."""
        parts = enumerate(self.parts)
        return {
            f"{i}_{name}": array for i, part in parts for name, array in part.as_arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        parts: dict[int, dict[str, Array]] = {}
        for name, array in arrays.items():
            number, _, own = name.partition("_")
            parts.setdefault(int(number), {})[own] = array
        return cls(tuple(AnchoredSums.from_arrays(parts[i]) for i in range(len(parts))))


@dataclass(frozen=True)
class _SegmentPass:
    """labels: (N,) of all users, or of as many as were known."""

    labels: Array
    n_segments: int
    anchor: Anchor

    def __call__(self, rows: UserRows) -> SegmentSums:
        labels = self.labels[rows.positions]
        return SegmentSums(
            tuple(
                AnchoredSums.from_rows(rows.X[np.flatnonzero(labels == i)], self.anchor)
                for i in range(self.n_segments)
            )
        )


@dataclass(frozen=True)
class Likeness:
    """Two segments side by side."""

    shares: Float64  # (2, K) the mean memberships of either
    distance: float  # half of their absolute difference
    p_value: float  # how often users who change sides at random are as far apart


def compare_segments(P: Array, one: Array, other: Array, rng: np.random.Generator) -> Likeness:
    """Tell whether two segments are alike by the memberships of their users.

    P: (N, K).  one, other: positions of users in either, none in both. Of 999 permutations of the
    users over the two, the share that is at least as far apart, the users as they are among them.
    """
    members = P[np.concatenate([one, other])].astype(np.float64)
    total, n = members.sum(axis=0), len(one)

    def distance(of_one: Float64) -> float:
        means = of_one / n, (total - of_one) / max(len(members) - n, 1)
        return float(np.abs(means[0] - means[1]).sum() / 2)

    seen = distance(members[:n].sum(axis=0))
    permuted = (
        members[rng.permutation(len(members))[:n]].sum(axis=0) for _ in range(_PERMUTATIONS)
    )
    as_far = sum(distance(sums) >= seen * (1 - 1e-12) for sums in permuted)
    shares = np.stack([members[:n].mean(axis=0), members[n:].mean(axis=0)])
    return Likeness(shares, seen, (as_far + 1) / (_PERMUTATIONS + 1))
