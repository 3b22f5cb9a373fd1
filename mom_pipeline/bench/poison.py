"""Days of logs that a gate should keep out, each made from a real day."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mom_pipeline.core.types import Array

_RANDOM_PER_USER, _FEW_PER_USER, _COPIES = 100, 5, 10
_DAY_SECONDS = 86_400
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True)
class Events:
    """Lines of a log in the order of time; times: seconds since 1970.  All (n,)."""

    users: Array
    items: Array
    times: Array

    def __len__(self) -> int:
        return len(self.users)

    def take(self, positions: Array) -> "Events":
        return Events(self.users[positions], self.items[positions], self.times[positions])


@dataclass(frozen=True)
class Surroundings:
    """What a poisoned day is made with.

    users, items: known before, in the order of their numbers.  other_shop: a day of another log.
    """

    users: Array
    items: Array
    other_shop: Events


Poison = Callable[[Events, Surroundings, np.random.Generator], Events]


def _random_events(day: Events, around: Surroundings, rng: np.random.Generator, n: int) -> Events:
    users = np.repeat(np.unique(day.users), n)
    midnight = day.times.min() // _DAY_SECONDS * _DAY_SECONDS
    times = np.sort(rng.integers(midnight, midnight + _DAY_SECONDS, len(users)))
    return Events(rng.permutation(users), rng.choice(around.items, len(users)), times)


def _half_of_users(day: Events, rng: np.random.Generator) -> Events:
    users = np.unique(day.users)
    kept = rng.permutation(users)[: len(users) // 2]
    return day.take(np.flatnonzero(np.isin(day.users, kept)))


def _half_of_lines(day: Events, rng: np.random.Generator) -> Events:
    return day.take(np.sort(rng.permutation(len(day))[: len(day) // 2]))


def _plus_one(ids: Array) -> Array:
    """Add one to the last number of every id; its width stays."""

    def next_id(text: str) -> str:
        return _LAST_NUMBER.sub(lambda m: str(int(m[0]) + 1).zfill(len(m[0])), text)

    return np.array([next_id(str(text)) for text in ids])


def _next_known(ids: Array, known: Array) -> Array:
    """Replace every id by the one that follows it among those known."""
    following = dict(zip(known.tolist(), np.roll(known, -1).tolist(), strict=True))
    return np.array([following.get(text, text) for text in ids.tolist()])


def _most_active(day: Events) -> Events:
    users, rows = np.unique(day.users, return_counts=True)
    return day.take(np.flatnonzero(day.users == users[rows.argmax()]))


def _at_the_day(day: Events, other: Events) -> Array:
    """Times of another day's events, on this day."""
    return other.times % _DAY_SECONDS + day.times.min() // _DAY_SECONDS * _DAY_SECONDS


def _other_ids(day: Events, around: Surroundings) -> Events:
    other = around.other_shop
    users, items = (np.char.add("shop-", ids.astype(str)) for ids in (other.users, other.items))
    return Events(users, items, _at_the_day(day, other))


def _same_ids(day: Events, around: Surroundings) -> Events:
    """Another shop whose ids, numbered as here, are ids of other users and items here."""
    other = around.other_shop

    def renamed(ids: Array, known: Array) -> Array:
        numbers = np.unique(ids, return_inverse=True)[1]
        return known[numbers * 7919 % len(known)]

    users, items = renamed(other.users, around.users), renamed(other.items, around.items)
    return Events(users, items, _at_the_day(day, other))


POISONS: Mapping[str, Poison] = {
    "100 random events per user": lambda day, around, rng: _random_events(
        day, around, rng, _RANDOM_PER_USER
    ),
    "5 random events per user": lambda day, around, rng: _random_events(
        day, around, rng, _FEW_PER_USER
    ),
    "random items": lambda day, around, rng: replace(day, items=rng.choice(around.items, len(day))),
    "every line ten times": lambda day, around, rng: day.take(
        np.repeat(np.arange(len(day)), _COPIES)
    ),
    "first half only": lambda day, around, rng: day.take(np.arange(len(day) // 2)),
    "second half only": lambda day, around, rng: day.take(np.arange(len(day) // 2, len(day))),
    "random half of the lines": lambda day, around, rng: _half_of_lines(day, rng),
    "random half of the users": lambda day, around, rng: _half_of_users(day, rng),
    "item ids plus one": lambda day, around, rng: replace(day, items=_plus_one(day.items)),
    "next item of the catalogue": lambda day, around, rng: replace(
        day, items=_next_known(day.items, around.items)
    ),
    "items moved by a line": lambda day, around, rng: replace(day, items=np.roll(day.items, 1)),
    "user ids plus one": lambda day, around, rng: replace(day, users=_plus_one(day.users)),
    "next known user": lambda day, around, rng: replace(
        day, users=_next_known(day.users, around.users)
    ),
    "all under one user": lambda day, around, rng: replace(
        day, users=np.full(len(day), day.users[0])
    ),
    "one user's rows only": lambda day, around, rng: _most_active(day),
    "another shop, other ids": lambda day, around, rng: _other_ids(day, around),
    "another shop, same ids": lambda day, around, rng: _same_ids(day, around),
}
