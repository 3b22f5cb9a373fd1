"""Groups of people: the components in words, with their size, days and place on a map.

A person belongs to the component of the largest P[component | person].
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np
from scipy import sparse

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.types import Array, Csr, Float64

FIRST_DAY = date(1969, 12, 31)  # the day 0 of `last_days`
# A share by day is that of the week before it.
_DAYS, _WEEK = 60, 7
_WORD = re.compile(r"[^\W\d_]{3,}")
# Of a name: so many words, each of some share of what the group takes, so much above everybody,
# not by one item alone, and not far behind the first word.
_WORDS, _LEAST_SHARE, _LEAST_LIFT, _MOST_BY_ONE, _OF_FIRST = 3, 0.04, 1.25, 0.6, 0.3
_STEPS, _PULL, _GAP, _SMALLEST = 400, 0.02, 1.02, 0.35


def strongest_groups(model: FittedModel, X: Csr) -> Array:
    """The group of every person, (N,), from 0."""
    starts = range(0, X.shape[0], 65_536)
    parts = [model.memberships(X[start : start + 65_536]).argmax(axis=1) for start in starts]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def set_apart(O: Array, popularity: Array) -> Float64:
    """How much each row sets a group apart from everybody: p log(p / p of everybody), as O."""
    p, everybody = O.astype(np.float64), popularity[:, None].astype(np.float64)
    ratio = np.divide(p, everybody, out=np.ones_like(p), where=(p > 0) & (everybody > 0))
    return np.asarray(p * np.log(ratio))


def group_names(O: Array, popularity: Array, ids: Sequence[str], catalogue: Catalogue) -> list[str]:
    """Groups and words of the catalogue that set each component apart; else a typical item."""
    best = np.argsort(-set_apart(O, popularity), axis=0, kind="stable")[:2].T.tolist()
    typical = [" & ".join(catalogue.name(ids[y]) or ids[y] for y in pair) for pair in best]
    words, F = _features(ids, catalogue)
    everybody, names = F @ popularity.astype(np.float64), []
    for p in O.T.astype(np.float64):
        shares = F @ p
        by_one = np.maximum.reduceat(p[F.indices], F.indptr[:-1]) if F.nnz else shares
        told = set_apart(shares[:, None], everybody)[:, 0]
        told[(shares < _LEAST_SHARE) | (shares < _LEAST_LIFT * everybody)] = 0
        told[by_one > _MOST_BY_ONE * shares] = 0
        least = max(_OF_FIRST * told.max(initial=0), 1e-12)
        told_best = np.argsort(-told, kind="stable")[:_WORDS]
        names.append(" · ".join(words[w] for w in told_best if told[w] >= least))
    often = Counter(names)
    return [
        name if name and often[name] == 1 else f"{name} around {items}".strip()
        for name, items in zip(names, typical, strict=True)
    ]


def _features(ids: Sequence[str], catalogue: Catalogue) -> tuple[list[str], Csr]:
    """Groups, and words of several names, with the items that have them, (words, D)."""
    shown: dict[str, str] = {}
    of_items: dict[str, set[int]] = {}
    for position, item in enumerate(ids):
        entry = catalogue.entry(item)
        for word in (*entry.groups, *(w.capitalize() for w in _WORD.findall(entry.name))):
            shown.setdefault(word.casefold(), word)
            of_items.setdefault(word.casefold(), set()).add(position)
    kept = [word for word, items in of_items.items() if len(items) > 1]
    columns = [y for word in kept for y in sorted(of_items[word])]
    indptr = np.append(0, np.cumsum([len(of_items[word]) for word in kept], dtype=np.int64))
    entries = np.ones(len(columns)), np.array(columns, dtype=np.int64), indptr
    return [shown[word] for word in kept], sparse.csr_array(entries, shape=(len(kept), len(ids)))


def by_day(days: Array, kinds: Array, n: int) -> tuple[tuple[date, ...], Float64]:
    """Count entries by day and kind: the last days, and (days, n) counts.

    days: numbers of days of the entries.  kinds: their kinds, below n.
    """
    newest = int(days.max(initial=0))
    first = max(newest - _DAYS + 1, int(days.min(initial=newest)))
    since, length = days >= first, newest - first + 1
    places = (days[since].astype(np.int64) - first) * n + kinds[since]
    counts = np.bincount(places, minlength=length * n).reshape(length, n).astype(np.float64)
    return tuple(FIRST_DAY + timedelta(days=first + d) for d in range(length)), counts


def weekly_shares(counts: Float64) -> Float64:
    """The share of each column in the week up to a day. counts: (days, n)."""
    sums = np.cumsum(counts, axis=0)
    sums[_WEEK:] -= sums[:-_WEEK].copy()
    return np.asarray(sums / np.maximum(sums.sum(axis=1, keepdims=True), 1))


def bubbles(O: Array, sizes: Array) -> Float64:
    """(K, 3): a place and a radius for each group in a square of side 1; none covers another.

    Like groups are near each other: their ranks along the two main directions of sqrt(O), from
    where the circles are pushed apart and drawn together.
    """
    root, K = np.sqrt(O.astype(np.float64)), len(sizes)
    _, vectors = np.linalg.eigh(root.T @ root)
    rank = vectors[:, ::-1][:, 1:3].argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    places = np.zeros((K, 2))
    places[:, : rank.shape[1]] = 2 * (rank + 0.5) / K - 1
    places += 1e-3 * np.stack([np.cos(np.arange(K) * 2.4), np.sin(np.arange(K) * 2.4)], axis=1)
    radius = np.sqrt(np.maximum(sizes, (_SMALLEST**2) * sizes.max(initial=0.0)))
    radius /= max(float(np.sqrt((radius**2).sum())), 1e-12)
    wanted = _GAP * (radius[:, None] + radius)
    np.fill_diagonal(wanted, 0)
    for step in range(2 * _STEPS):
        apart = places[:, None] - places
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-9)
        push = np.maximum(wanted - distance, 0) / distance / 2
        if step > _STEPS and not push.any():
            break
        places += (apart * push[..., None]).sum(axis=1) * 0.6
        if step < _STEPS:
            places *= 1 - _PULL
    low, high = (places - radius[:, None]).min(axis=0), (places + radius[:, None]).max(axis=0)
    side = float((high - low).max())
    centred = (places - (low + high) / 2) / side + 0.5
    return np.column_stack([centred, radius / side])
