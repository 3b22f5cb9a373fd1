"""How one figure of a day is judged beside the same figure of the days before."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.evaluation.usual import Usual
from mom_pipeline.logs.day_figures import DayFigures

# Days before that it takes to judge a day.
ENOUGH_DAYS = 7
# Weekdays differ by so much; it is allowed for until a day's weekday was seen twice.
_WEEKDAYS_DIFFER = 0.25
# What a level may have moved by in a day of which there are no admitted rows.
_DAILY_DRIFT = 0.05


class Log:
    """Counts and other positive numbers."""

    def to(self, value: float) -> float:
        return math.log(max(value, 1e-12))

    def back(self, log: float) -> float:
        return math.exp(log)


@dataclass(frozen=True)
class Logit:
    """Shares, as log(share / (1 - share)); those below `rare` are all alike."""

    rare: float = 0.03

    def to(self, share: float) -> float:
        return math.log((share + self.rare) / (1 - share + self.rare))

    def back(self, logit: float) -> float:
        share = (1 + 2 * self.rare) / (1 + math.exp(-logit)) - self.rare
        return min(max(share, 0.0), 1.0)


@dataclass(frozen=True)
class Rule:
    """How one figure is judged.

    words, number: the figure as it is shown.  scale: on which it is compared.
    low, high: spreads below and above the usual level from which on a day is objected to.
    least_spread: of a figure that hardly varies.  per_user: the spread that a single user
    brings; it falls with the root of their number.  counted: a share of users, which varies
    by chance as such shares do.
    of_users: a mean over the day's users, which varies more on a day with few of them.
    of_past: it compares with the days before, so these need a past themselves.
    """

    words: str
    value: Callable[[DayFigures], float]
    low: float = math.inf
    high: float = math.inf
    if_low: str = ""
    if_high: str = ""
    number: str = "{:.1%}"
    scale: Log | Logit = Logit()
    least_spread: float = 0.4
    per_user: float = 1.0
    counted: bool = False
    of_users: bool = False
    of_past: bool = False

    def objection(self, today: DayFigures, recent: Sequence[DayFigures]) -> str | None:
        """Return the sentence for a day that is out of the usual, or None."""
        if self.of_past:
            recent = [figures for figures in recent if figures.days_before >= ENOUGH_DAYS]
        if len(recent) < ENOUGH_DAYS:
            return None
        beyond = self.distance(today, recent)
        if beyond < -self.low:
            return self.sentence(today, recent, self.if_low)
        if beyond > self.high:
            return self.sentence(today, recent, self.if_high)
        return None

    def distance(self, today: DayFigures, recent: Sequence[DayFigures]) -> float:
        """Return how many spreads above the usual level the day is; negative: below."""
        usual_users = float(np.median([figures.users for figures in recent]))
        by_chance = self.per_user * usual_users**-0.5
        if self.counted:
            share = float(np.median([self.value(figures) for figures in recent]))
            by_chance /= math.sqrt(max(share * (1 - share), 1 / usual_users))
        beyond = self._usual(today, recent).distance(
            self.scale.to(self.value(today)),
            least_spread=max(self.least_spread, by_chance),
            unknown=_unknown(today, recent),
        )
        noise = math.sqrt(max(1.0, usual_users / today.users)) if self.of_users else 1.0
        return beyond / noise

    def sentence(self, today: DayFigures, recent: Sequence[DayFigures], meaning: str) -> str:
        """Return the day's figure, what would be usual, and the range of the days before."""
        values = [self.value(figures) for figures in recent]
        usual = self.scale.back(self._usual(today, recent).level)
        seen, expected, low, high = (
            self.number.format(value)
            for value in (self.value(today), usual, min(values), max(values))
        )
        return (
            f"{self.words.format(seen)}; about {expected} would be usual on this {today.day:%A}, "
            f"the {len(values)} days before had {low} to {high}: {meaning}"
        )

    def _usual(self, today: DayFigures, recent: Sequence[DayFigures]) -> Usual:
        return Usual.from_days(
            [self.scale.to(self.value(figures)) for figures in recent],
            [figures.day.weekday() for figures in (*recent, today)],
        )


def _unknown(today: DayFigures, recent: Sequence[DayFigures]) -> float:
    """Return what the usual level is uncertain by for want of days before.

    Days that were kept out do not say what is usual: without this, a weekday or a season that
    was kept out once might be kept out for good.
    """
    same = sum(figures.day.weekday() == today.day.weekday() for figures in recent)
    days_since = (today.day - recent[-1].day).days - 1
    return math.hypot(_WEEKDAYS_DIFFER * (same < 2), _DAILY_DRIFT * math.sqrt(days_since))
