"""Days of logs of an invented record shop, from the generative model, as untidy as real ones.

Users belong to one latent component each, a genre. Users and records arrive over time, popularity
drifts; events come late, lines are malformed, days are delivered again.
"""

import gzip
import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from mom_pipeline.catalogue import Item
from mom_pipeline.core.simulation import LatentClasses, draw_classes
from mom_pipeline.errors import InvalidSetting

_WORDS = files("mom_pipeline").joinpath("logs/sample_words.toml").read_text("utf-8")
_GENRES, _PEOPLE, _SURNAMES, _ADJECTIVES, _NOUNS = map(str.split, tomllib.loads(_WORDS).values())
_SHARE_AT_START = 0.6  # of users and items that exist on the first day
_DAILY_DRIFT = 0.08  # standard deviation of the step of an item's log popularity
_LATE_SHARE, _MAX_DAYS_LATE = 0.03, 3
_MALFORMED_SHARE = 0.003
_REPEATED_SHARE, _CORRECTED_SHARE = 0.1, 0.1
_SECONDS_PER_DAY = 86_400
_MALFORMED = ("ada-00000,", ",,", "ben-00001,jazz-000,yesterday", '"carla-00002,jazz', "\x00\x00")


@dataclass(frozen=True)
class SampleSettings:
    """Size, first day and seed of the sample."""

    n_days: int = 28
    n_users: int = 2500
    n_items: int = 600
    n_components: int = 8
    events_per_day: int = 2500
    first_day: date = date(2024, 3, 1)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.n_components > self.n_items:
            raise InvalidSetting(
                f"n_components={self.n_components} must be at most n_items={self.n_items}"
            )


@dataclass(frozen=True)
class Delivery:
    """A log file as it arrives. The last delivery of a name is its final content."""

    name: str
    day: date
    content: bytes


def user_id(number: int) -> str:
    """The id of the n-th user, from 0: `ben-00001`."""
    return f"{_PEOPLE[number % len(_PEOPLE)]}-{number:05d}"


def sample_records(settings: SampleSettings) -> list[Item]:
    """Every item that the logs of these settings may hold, each with another name."""
    items = _World.draw(settings, np.random.default_rng(settings.seed)).item_ids
    rng = np.random.default_rng([settings.seed, 1])
    titles = [" ".join(words) for words in itertools.product(_ADJECTIVES, _NOUNS)]
    artists = [f"{a.title()} {b}" for a, b in itertools.product(_PEOPLE, _SURNAMES)]
    rng.shuffle(titles)
    rng.shuffle(artists)
    records = []
    for number, item in enumerate(items):
        volume, at = divmod(number, len(titles))
        title = titles[at] if not volume else f"{titles[at]}, Vol. {volume + 1}"
        artist = artists[int(rng.integers(len(items) // 3 + 1)) % len(artists)]
        records.append(Item(item, f"{artist} – {title}", item.split("-")[0].title()))
    return records


def sample_deliveries(settings: SampleSettings) -> Iterator[Delivery]:
    """Log files in order of arrival, always the same: some corrected, some delivered twice."""
    rng = np.random.default_rng(settings.seed)
    world = _World.draw(settings, rng)
    late: list[tuple[int, str]] = []
    pending: list[Delivery] = []
    for number in range(settings.n_days):
        day = settings.first_day + timedelta(days=number)
        events = [*late, *world.events_of_day(number, day, rng)]
        late = [(due, line) for due, line in events if due > number]
        lines = [line for due, line in events if due <= number]
        for _ in range(int(_MALFORMED_SHARE * len(lines))):
            lines.insert(int(rng.integers(len(lines))), _MALFORMED[rng.integers(len(_MALFORMED))])
        whole = _delivery(day, lines)
        kind = rng.random()
        if kind < _CORRECTED_SHARE:
            yield _delivery(day, lines[: len(lines) // 2])
            corrections = [whole]
        else:
            yield whole
            corrections = [whole] if kind < _CORRECTED_SHARE + _REPEATED_SHARE else []
        yield from pending
        pending = corrections
    yield from pending


@dataclass(frozen=True)
class _World:
    """Users, items and components behind the logs; `log_popularity` drifts in place."""

    settings: SampleSettings
    truth: LatentClasses
    item_ids: NDArray[np.object_]
    user_components: NDArray[np.int64]
    activity: NDArray[np.float64]
    users_from: NDArray[np.int64]
    items_from: NDArray[np.int64]
    log_popularity: NDArray[np.float64]

    @classmethod
    def draw(cls, settings: SampleSettings, rng: np.random.Generator) -> "_World":
        truth = draw_classes(settings.n_items, settings.n_components, rng)
        # Numbered within the genre that they are most typical of.
        genres = np.argmax(truth.item_probs * truth.weights, axis=1)
        ids = [f"{_GENRES[k % len(_GENRES)]}-{n:03d}" for n, k in enumerate(genres)]
        return cls(
            settings=settings,
            truth=truth,
            item_ids=np.array(ids, dtype=object),
            user_components=rng.choice(settings.n_components, settings.n_users, p=truth.weights),
            activity=rng.gamma(1.0, size=settings.n_users) + 0.1,
            users_from=_arrival_days(settings.n_users, settings.n_days, rng),
            items_from=_arrival_days(settings.n_items, settings.n_days, rng),
            log_popularity=np.zeros(settings.n_items),
        )

    def events_of_day(
        self, number: int, day: date, rng: np.random.Generator
    ) -> list[tuple[int, str]]:
        """Lines of the events of a day, in order of time, each with the day that delivers it."""
        self.log_popularity[:] += rng.normal(0.0, _DAILY_DRIFT, size=self.settings.n_items)
        present = np.exp(self.log_popularity) * (self.items_from <= number)
        weights = self.activity * (self.users_from <= number)
        n = int(rng.poisson(self.settings.events_per_day))
        users = rng.choice(self.settings.n_users, size=n, p=weights / weights.sum())
        items = _draw_items(
            self.truth.item_probs * present[:, None], self.user_components[users], rng
        )
        is_late = rng.random(n) < _LATE_SHARE
        due = number + np.where(is_late, rng.integers(1, _MAX_DAYS_LATE + 1, n), 0)
        seconds = np.sort(rng.integers(0, _SECONDS_PER_DAY, n))
        times = np.datetime_as_string(np.datetime64(day) + seconds.astype("timedelta64[s]"))
        events = zip(due.tolist(), users.tolist(), self.item_ids[items], times, strict=True)
        return [(late, f"{user_id(user)},{item},{time}") for late, user, item, time in events]


def _draw_items(
    item_weights: NDArray[np.float64], components: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """One item per event, from the column of its component."""
    n_items, n_components = item_weights.shape
    item_probs = item_weights / item_weights.sum(axis=0)
    items = np.empty(len(components), dtype=np.int64)
    for k in range(n_components):
        members = np.flatnonzero(components == k)
        items[members] = rng.choice(n_items, size=len(members), p=item_probs[:, k])
    return items


def _arrival_days(n: int, n_days: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The day on which each user or item appears: most at once, the rest evenly."""
    days = rng.integers(0, n_days, size=n)
    days[rng.random(n) < _SHARE_AT_START] = 0
    days[0] = 0
    return days


def _delivery(day: date, lines: list[str]) -> Delivery:
    text = "\n".join(["user,item,timestamp", *lines]) + "\n"
    return Delivery(f"{day}.csv.gz", day, gzip.compress(text.encode(), mtime=0))
