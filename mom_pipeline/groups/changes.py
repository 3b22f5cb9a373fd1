"""What happened to the groups since the day before, with p-values from permuted people.

The p-values are exact: how many of a group's people stay, when people are permuted among groups,
is hypergeometric; whether those who move come or go, when each move is as likely the other way,
binomial. They are shared out over all tests of a day (Bonferroni), so with people who move for
themselves one day in 100 is said to be unusual, whatever the number of groups.

People also move together, when all components move by their error. So a change is an alarm where
it concerns more people than any one of the 99 days before, of `WARM_UP` at least. Of days that
could stand in any order that is one in 100 as well; in the first hundred one: 1/38 + ... + 1/100.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mom_pipeline.core.types import Array
from mom_pipeline.groups.people import sizes

ALPHA, WARM_UP, WINDOW = 0.01, 37, 99
# Only groups on which two halves of the people agree so well, on both days, are looked at.
SETTLED = 0.9
Kind = Literal["vanished", "split", "doubled"]
KINDS: tuple[Kind, ...] = ("vanished", "split", "doubled")
# Less of a group's people together: it is gone. Two parts of so much: it is split. So much larger.
_GONE, _PART, _TWICE = 0.25, 1 / 3, 2.0


@dataclass(frozen=True)
class GroupChange:
    """What happened to a group, from 0."""

    kind: Kind
    group: int
    p_value: float  # of the day, for all of its tests
    before: int  # people
    after: int
    concerned: int  # how many came or went
    into: int = -1  # of a split, the other part


@dataclass(frozen=True)
class GroupDay:
    """The groups of a day beside those of the day before."""

    moved: float  # share of the people of both days who are in another group
    changes: tuple[GroupChange, ...]  # those that permuted people do not explain, the largest first
    largest: float  # share of all people whom the first one concerns

    def alarms(self, past: Sequence[float]) -> tuple[GroupChange, ...]:
        """The changes, where they are larger than on any day before. past: `largest` of these."""
        last = list(past)[-WINDOW:]
        return self.changes if len(last) >= WARM_UP and self.largest > max(last) else ()


def compare_days(before: Array, after: Array, K: int) -> GroupDay:
    """Compare the groups of two days.

    before, after: (N_before,), (N,) groups from 0 to K - 1 of people by position, below 0 without.
    """
    known = (before >= 0) & (after[: len(before)] >= 0)
    flows = np.zeros((K, K), dtype=np.int64)  # from, to
    np.add.at(flows, (before[known], after[: len(before)][known]), 1)
    total, now = int(flows.sum()), sizes(after, K)
    if not total:
        return GroupDay(0.0, (), 0.0)
    found = [
        change
        for k in range(K)
        for change in (*_gone_or_split(flows, k), *_doubled(flows, now, k))
        if change.p_value <= ALPHA
    ]
    found.sort(key=lambda change: -change.concerned)
    largest = found[0].concerned / total if found else 0.0
    return GroupDay(1 - float(np.trace(flows)) / total, tuple(found), largest)


def _gone_or_split(flows: Array, k: int) -> Iterator[GroupChange]:
    """Whether the people of a group are together no longer, or in two groups."""
    K, total, own, stayed = len(flows), int(flows.sum()), int(flows[k].sum()), int(flows[k, k])
    now = flows.sum(axis=0)
    if not own or K == 1:
        return
    first, second = np.argsort(-flows[k], kind="stable")[:2].tolist()
    other = second if first == k else first
    # A part is one of its own, not a group that took some in.
    apart = [y for y in (first, second) if y == k or flows[k, y] >= now[y] / 2]
    if flows[k, second] >= _PART * own and len(apart) == 2:
        p = _drawn("sf", int(flows[k, other]) - 1, total, own, int(now[other]))
        yield GroupChange("split", k, _of_day(p, K), own, stayed, int(flows[k, other]), other)
    elif stayed < _GONE * own and (first == k or first not in apart):
        # As few of any people where they were.
        p = _drawn("cdf", stayed, total, int(np.trace(flows)), own)
        yield GroupChange("vanished", k, _of_day(p, K), own, stayed, own - stayed)


def _doubled(flows: Array, now: Array, k: int) -> Iterator[GroupChange]:
    """Whether a group has twice the share of all people that it had."""
    own, total, after, everybody = int(flows[k].sum()), int(flows.sum()), int(now[k]), now.sum()
    if after / everybody < _TWICE * own / total:
        return
    stayed, new = int(flows[k, k]), int(everybody) - total
    came = int(flows[:, k].sum()) - stayed
    new_here = after - came - stayed
    by_moves = _tossed(came, came + own - stayed)
    by_new = _drawn("sf", new_here - 1, int(everybody), after, new)
    p = _of_day(2 * min(by_moves, by_new), len(flows))
    yield GroupChange("doubled", k, p, own, after, after - own)


def _drawn(tail: Literal["sf", "cdf"], x: int, total: int, marked: int, n: int) -> float:
    """P[marked among n of all people > x], or <= x."""
    from scipy.stats import hypergeom  # half a second, on the few days on which it is needed

    return float(getattr(hypergeom, tail)(x, total, marked, n))


def _tossed(came: int, moved: int) -> float:
    """P[as many of those who moved came], each as likely as that one left."""
    from scipy.stats import binom

    return float(binom.sf(came - 1, moved, 0.5))


def _of_day(p: float, K: int) -> float:
    """The p-value of a day on which every group is tested for everything."""
    return min(p * len(KINDS) * K, 1.0)
