"""Who is in which group, how many of them, and on which days they were there.

A person belongs to the group of the largest P[group | person], of those that the data supports.
"""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

import numpy as np

from mom_pipeline.core.evaluation.stability import MIN_AGREEMENT
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.types import Array, Csr, Float64

FIRST_DAY = date(1969, 12, 31)  # the day 0 of `last_days`
NOBODY = -1
_BLOCK = 65_536
# What is shown of the past; a person counts for a week.
_DAYS, WEEK = 60, 7
_Z = 1.959964  # of 95 %


def supported(
    agreement: Sequence[float], K: int, least: float = 0.0, most: int | None = None
) -> Array:
    """The groups that two halves of the people agree on; all where nothing or none is known so.

    least: what they agree on by chance, if that is more than `MIN_AGREEMENT`.
    most: as many as the people support, the best first, since among more columns of one basis
    there are some in which noise agrees; None for any number.
    """
    if len(agreement) != K:
        return np.arange(K)
    level = np.asarray(agreement)
    best = np.argsort(-level, kind="stable")[:most]
    found = np.sort(best[level[best] >= max(least, MIN_AGREEMENT)])
    return found if len(found) else np.arange(K)


def strongest_groups(memberships: Array, known: Array, shown: Array) -> Array:
    """The strongest of the shown groups of every person, (N,), from 0; NOBODY without a history.

    memberships: (N, K), of which those left out make the others no other by Bayes' rule.
    known: (N,) of bool.  shown: groups.
    """
    starts = range(0, len(memberships), _BLOCK)
    parts = [memberships[start : start + _BLOCK, shown].argmax(axis=1) for start in starts]
    strongest = shown[np.concatenate([np.zeros(0, dtype=np.int64), *parts])]
    return np.where(known, strongest, NOBODY).astype(np.int32)


def blocks_of(model: FittedModel, X: Csr, shown: Array) -> Iterator[tuple[Array, Array]]:
    """P[group | person] of all rows with a history among the shown groups, block by block.

    Yields positions, (n,), and (n, K), 0 for groups that are not shown.
    """
    known = np.flatnonzero(np.diff(X.indptr))
    others = np.delete(np.arange(len(model.weights)), shown)
    for start in range(0, len(known), _BLOCK):
        users = known[start : start + _BLOCK]
        P = model.memberships(X[users])
        P[:, others] = 0
        sums = P.sum(axis=1, keepdims=True)
        yield users, np.divide(P, sums, out=np.full_like(P, 0), where=sums > 0)


def groups_of(model: FittedModel, X: Csr, shown: Array) -> Array:
    """The group of every row, (N,), as `strongest_groups`."""
    groups = np.full(X.shape[0], NOBODY, dtype=np.int32)
    for users, P in blocks_of(model, X, shown):
        groups[users] = shown[P[:, shown].argmax(axis=1)]
    return groups


def sizes(group_of: Array, K: int) -> Array:
    """How many people each group has, (K,)."""
    return np.bincount(group_of[group_of >= 0], minlength=K)


def share_interval(counts: Array, n: Array | int) -> tuple[Float64, Float64]:
    """95 % interval of a share counts / n (Wilson, 1927); of nobody 0 to 1."""
    k, n = np.asarray(counts, dtype=np.float64), np.maximum(n, 1e-9)
    p, z2 = k / n, _Z**2 / n
    middle, half = (p + z2 / 2) / (1 + z2), _Z * np.sqrt(p * (1 - p) / n + z2 / (4 * n)) / (1 + z2)
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


def by_day(days: Array, kinds: Array, n: int) -> tuple[tuple[date, ...], Float64]:
    """Count entries by day and kind, below n: the last days, and (days, n) counts."""
    first, newest = shown_days(days)
    since, length = days >= first, newest - first + 1
    places = (days[since].astype(np.int64) - first) * n + kinds[since]
    counts = np.bincount(places, minlength=length * n).reshape(length, n).astype(np.float64)
    return dates(first, length), counts


def people_by_week(last_days: Csr, group_of: Array, K: int) -> tuple[tuple[date, ...], Array]:
    """How many people of each group took something in the week up to each of the last days.

    last_days: (N, D), the day on which a person took an item last.  Returns days, (days, K).
    """
    first, newest = shown_days(last_days.data)
    length = newest - first + 1
    owners = np.repeat(np.arange(last_days.shape[0]), np.diff(last_days.indptr))
    taken = np.unique(owners * (newest + 1) + last_days.data.astype(np.int64))
    own, day = np.divmod(taken, newest + 1)
    # A person counts from a day on for a week, or until the next day of theirs.
    until = day + WEEK
    until[:-1] = np.where(own[1:] == own[:-1], np.minimum(until[:-1], day[1:]), until[:-1])
    counts = np.zeros((length + 1, K), dtype=np.int64)
    for moments, change in ((day, 1), (until, -1)):
        places = np.clip(moments - first, 0, length)
        np.add.at(counts, (places, group_of[own]), change)
    return dates(first, length), counts.cumsum(axis=0)[:length]


def shown_days(days: Array) -> tuple[int, int]:
    """First and last of the days that are shown."""
    newest = int(days.max(initial=0))
    return max(newest - _DAYS + 1, int(days.min(initial=newest))), newest


def dates(first: int, length: int) -> tuple[date, ...]:
    return tuple(FIRST_DAY + timedelta(days=first + d) for d in range(length))
