"""When the users of each item came: whole counts by item and day, and features made of them.

    n_yd: users whose last event with item y was on day d

Counts are sums over users, exact under late files and erasure. What is aged is computed when it is
asked for, as of the newest day.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.moments.users import UserRows
from mom_pipeline.core.types import Array, Csr, Float64

# Half-lives in days of the users of late. With 3 and 90 days and the days since an item's first
# user beside these, what few items did in a window is learnt as a rule: on weeks of MovieTweetings
# nDCG@20 falls by 9 %, on months by 2 %.
HALF_LIVES = (1, 14)
# Users that an item is taken to have beside its own in a logarithm of the users of late.
_SMOOTHING = 0.1
# Users of a day that count whatever the item's other days had; README says what it was chosen on.
# Where more than a tenth of all would count for nothing, single days are how items live: news.
_SUDDEN, _MOST_BOUNDED = 3, 0.1


def as_last_days(last_days: object, X: Csr) -> Csr:
    """Return the day of every entry's last event, (N, D), or say what is wrong with it.

    last_days: numbers of days, above 0, such as `date.toordinal()`, where X has entries.
    """
    days = as_interactions(last_days, n_items=X.shape[1])
    same = (
        days.shape == X.shape
        and np.array_equal(days.indptr, X.indptr)
        and np.array_equal(days.indices, X.indices)
    )
    if not same:
        raise InvalidInteractions(
            f"last_days must have a day above 0 for exactly the {X.nnz} pairs of the interactions, "
            f"found {days.nnz} in a matrix of {days.shape}"
        )
    return days


@dataclass(frozen=True)
class ItemDays:
    """n_yd as entries sorted by item and day, none of them 0.

    items, days, users: (entries,) of int64.  n_items: D.
    """

    items: Array
    days: Array
    users: Array
    n_items: int

    @classmethod
    def from_rows(cls, last_days: Csr) -> Self:
        """Count the users of each item by the day of their last event. last_days: (N, D)."""
        keys = last_days.indices.astype(np.int64)
        keys <<= 32  # in place: there are as many as interactions
        keys |= last_days.data.astype(np.int64, copy=False)
        keys, users = np.unique(keys, return_counts=True)
        return cls(keys >> 32, keys & (2**32 - 1), users, last_days.shape[1])

    @classmethod
    def of(cls, rows: UserRows) -> Self:
        """Count over some users: a pass."""
        if rows.last_days is None:
            raise InvalidInteractions("the days of the items need the days of the interactions")
        return cls.from_rows(rows.last_days)

    @classmethod
    def _summed(cls, items: Array, days: Array, users: Array, n_items: int) -> Self:
        keys, inverse = np.unique(items << 32 | days, return_inverse=True)
        sums = np.zeros(len(keys), dtype=np.int64)
        np.add.at(sums, inverse, users)
        keys, sums = keys[sums != 0], sums[sums != 0]
        return cls(keys >> 32, keys & (2**32 - 1), sums, n_items)

    def __add__(self, other: Self) -> Self:
        return self._summed(
            np.concatenate([self.items, other.items]),
            np.concatenate([self.days, other.days]),
            np.concatenate([self.users, other.users]),
            max(self.n_items, other.n_items),
        )

    def update(self, removed: Csr, added: Csr) -> Self:
        """Return the counts without some rows and with others, exact. Both: (any, D), of days."""
        gone = self.from_rows(removed)
        left = (
            self
            + self.from_rows(added)
            + type(self)(gone.items, gone.days, -gone.users, gone.n_items)
        )
        if left.users.min(initial=1) < 0:
            raise InvalidInteractions(
                "more interactions of a day were removed than there are; remove rows with the "
                "days that they had when they were added"
            )
        return left

    @property
    def newest(self) -> int:
        """The newest day, 0 where there is none."""
        return int(self.days.max(initial=0))

    def features(self) -> dict[str, Float64]:
        """Return what the days say of every item, name -> (D,), as of the newest day.

        users_h: log of the users of late, each worth 2^(-days ago / h).
        quiet: log of the days since the last user.
        """
        ago, D, users = (self.newest - self.days).astype(np.float64), self.n_items, self._bounded()
        late = {
            f"users_{h}": np.log(
                np.bincount(self.items, weights=users * 2 ** (-ago / h), minlength=D) + _SMOOTHING
            )
            for h in HALF_LIVES
        }
        newest = np.full(D, ago.max(initial=0.0))
        np.minimum.at(newest, self.items, ago)
        return {**late, "quiet": np.log1p(newest)}

    def _bounded(self) -> Float64:
        """Users by entry; a crowd of one day alone, after the first of all, counts as few."""
        users = self.users.astype(np.float64)
        others = np.bincount(self.items, weights=users, minlength=self.n_items)[self.items] - users
        later = self.days > self.days.min(initial=self.newest)
        sudden, known = np.where(later, users - others, 0.0), _SUDDEN
        while np.maximum(sudden - known, 0.0).sum() > _MOST_BOUNDED * users.sum():
            known *= 2
        return np.asarray(users - np.maximum(sudden - known, 0.0))

    def as_arrays(self) -> dict[str, Array]:
        """Return named arrays to be stored."""
        table = sparse.csr_array(
            (self.users, self.days, np.searchsorted(self.items, np.arange(self.n_items + 1))),
            shape=(self.n_items, self.newest + 1),
        )
        return {
            "item_day_users": table.data.astype(np.min_scalar_type(int(table.data.max(initial=1)))),
            "item_days": table.indices.astype(np.uint32),
            "item_day_starts": table.indptr,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Read what `as_arrays` named; ValueError where it does not fit together."""
        users, days, starts = (
            arrays[name].astype(np.int64)
            for name in ("item_day_users", "item_days", "item_day_starts")
        )
        lengths = np.diff(starts)
        if not len(users) == len(days) == starts[-1] or (lengths < 0).any() or starts[0] != 0:
            raise ValueError("the counts by item and day do not fit together")
        return cls(np.repeat(np.arange(len(lengths)), lengths), days, users, len(lengths))
