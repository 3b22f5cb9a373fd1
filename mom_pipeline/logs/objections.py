"""What speaks against taking a delivery day in: its figures beside those of the days before.

Every figure is compared on the scale of logarithms, in units of its own spread on the admitted days
before; see `distance`. A verdict depends on the rows of the day and of these days, on nothing else.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.evaluation.usual import Usual
from mom_pipeline.core.types import Float64
from mom_pipeline.logs.day_figures import DayFigures

# Days before that a day is compared with, and how many of them it takes.
RECENT_DAYS = 56
ENOUGH_DAYS = 7

# With fewer days only absurd ones are objected to: most rows repeated, or ten times more or less
# than on any of at least three days before.
_FEW_DAYS, _ABSURD_REPEATS, _ABSURD_FACTOR, _ABSURD_ROWS = 3, 0.8, 10, 100
# Weekdays differ by so much; it is allowed for until a day's weekday was seen twice.
_WEEKDAYS_DIFFER = 0.25
# What a level may have moved by in a day of which there are no admitted rows.
_DAILY_DRIFT = 0.05
# An hour is empty with less than a fifth of its usual users. A gap of such hours is objected to
# when it usually has a quarter of the day's users, and more than chance can leave out.
_EMPTY, _GAP_SHARE, _GAP_USERS = 0.2, 0.25, 8.0


def objections(
    today: DayFigures, recent: Sequence[DayFigures], kept_out: Sequence[DayFigures] = ()
) -> list[str]:
    """Return what speaks against a day, each a sentence with its numbers; empty: nothing.

    recent: figures of the admitted days before with rows, oldest first; the last `RECENT_DAYS`
    of them are used. With fewer than `ENOUGH_DAYS` only absurd days are objected to.
    kept_out: of the days before that were kept out. Their volume still tells what is usual: a
    weekday or a season that was kept out once is not kept out for good.
    """
    recent = [figures for figures in recent[-RECENT_DAYS:] if figures.rows]
    if not today.rows:
        return []
    if len(recent) < ENOUGH_DAYS:
        return _absurdities(today, recent)
    everyone = sorted([*recent, *kept_out], key=lambda figures: figures.day)[-RECENT_DAYS:]
    sentences = [rule.objection(today, everyone) for rule in _OF_VOLUME]
    sentences += [_gap_objection(today, everyone)]
    sentences += [rule.objection(today, recent) for rule in _OF_CONTENT]
    return [sentence for sentence in sentences if sentence]


def _log(value: float) -> float:
    return math.log(max(value, 1e-12))


def _logit(share: float, rare: float = 0.03) -> float:
    """Return log(share / (1 - share)); shares below the rare one are all alike."""
    return math.log((share + rare) / (1 - share + rare))


@dataclass(frozen=True)
class _Rule:
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
    scale: Callable[[float], float] = _logit
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
        usual = Usual.from_days(
            [self.scale(self.value(figures)) for figures in recent],
            [figures.day.weekday() for figures in (*recent, today)],
        )
        usual_users = float(np.median([figures.users for figures in recent]))
        by_chance = self.per_user * usual_users**-0.5
        if self.counted:
            share = float(np.median([self.value(figures) for figures in recent]))
            by_chance /= math.sqrt(max(share * (1 - share), 1 / usual_users))
        beyond = usual.distance(
            self.scale(self.value(today)),
            least_spread=max(self.least_spread, by_chance),
            unknown=_unknown(today, recent),
        )
        noise = math.sqrt(max(1.0, usual_users / today.users)) if self.of_users else 1.0
        return beyond / noise

    def sentence(self, today: DayFigures, recent: Sequence[DayFigures], meaning: str) -> str:
        """Return the day's figure beside those of the days before, or of its weekday."""
        value, alike, which = self.value(today), recent, f"the {len(recent)} days before"
        if min(map(self.value, recent)) <= value <= max(map(self.value, recent)):
            weekday = today.day.weekday()
            alike = [f for f in recent if f.day.weekday() == weekday] or recent
            which = f"the {today.day:%A}s before"
        values = sorted(map(self.value, alike))
        low, middle, high = (
            self.number.format(values[i]) for i in (0, len(values) // 2, len(values) - 1)
        )
        seen = self.words.format(self.number.format(value))
        return f"{seen}; {which} had {low} to {high}, mostly about {middle}: {meaning}"


_MISSING = "part of the file may be missing"
_TWICE = "lines may have been delivered more than once"
_NOT_THEIRS = "ids may be shifted, or those of another source"
_NOT_THEIR_ITEMS = "users may have been given the items of others"
_OF_VOLUME = (
    _Rule(
        "{} rows",
        lambda day: day.rows,
        5.0,
        10.0,
        _MISSING,
        "lines may have been repeated, or made by a program",
        number="{:,.0f}",
        scale=_log,
        least_spread=0.1,
    ),
    _Rule(
        "{} users",
        lambda day: day.users,
        3.0,
        10.0,
        _MISSING,
        _NOT_THEIRS,
        number="{:,.0f}",
        scale=_log,
        least_spread=0.1,
    ),
    _Rule(
        "{} rows per user (geometric mean)",
        lambda day: math.exp(day.log_rows_per_user),
        3.0,
        6.0,
        _MISSING,
        "lines may have been repeated, or made by a program",
        number="{:.1f}",
        scale=_log,
        least_spread=0.1,
    ),
)
_OF_CONTENT = (
    _Rule(
        "{} of the rows by one user",
        lambda day: day.most_rows / day.rows,
        high=6.0,
        if_high="rows of several users may stand under one id",
    ),
    _Rule(
        "{} of the rows repeated line by line",
        lambda day: 1 - day.different_rows / day.rows,
        high=6.0,
        if_high=_TWICE,
    ),
    _Rule(
        "{} of the lines rejected",
        lambda day: day.rejected / max(day.lines, 1),
        high=6.0,
        if_high="the file may have another form",
    ),
    _Rule(
        "{} of the users new",
        lambda day: 1 - day.known_users / day.users,
        high=6.0,
        if_high=_NOT_THEIRS,
        counted=True,
        of_users=True,
        of_past=True,
    ),
    _Rule(
        "{} of the known users seen in the week before",
        lambda day: day.lately_users / max(day.known_users, 1),
        low=6.0,
        if_low=_NOT_THEIRS,
        least_spread=0.2,
        counted=True,
        of_users=True,
        of_past=True,
    ),
    _Rule(
        "{} of a user's items new",
        lambda day: day.new_items,
        high=6.0,
        if_high=_NOT_THEIRS,
        of_users=True,
        of_past=True,
    ),
    _Rule(
        "{} of a known user's items taken before by the same user",
        lambda day: day.taken_again,
        4.75,
        7.0,
        _NOT_THEIR_ITEMS,
        _NOT_THEIR_ITEMS,
        scale=lambda share: _logit(share, 0.01),
        least_spread=0.2,
        of_users=True,
        of_past=True,
    ),
    _Rule(
        "the day's items had {} of a million rows of four weeks (geometric mean)",
        lambda day: 1e6 * math.exp(day.log_item_share),
        low=5.0,
        if_low="items may be random, shifted, or those of another source",
        number="{:,.1f}",
        scale=_log,
        least_spread=0.05,
        per_user=0.5,
        of_users=True,
        of_past=True,
    ),
)


def _unknown(today: DayFigures, recent: Sequence[DayFigures]) -> float:
    """Return what the usual level is uncertain by for want of days before.

    Days that were kept out do not say what is usual: without this, a weekday or a season that
    was kept out once might be kept out for good.
    """
    same = sum(figures.day.weekday() == today.day.weekday() for figures in recent)
    days_since = (today.day - recent[-1].day).days - 1
    return math.hypot(_WEEKDAYS_DIFFER * (same < 2), _DAILY_DRIFT * math.sqrt(days_since))


def _gap_objection(today: DayFigures, recent: Sequence[DayFigures]) -> str | None:
    """Return an objection to hours in a row without users in which many are usual."""
    usual = np.mean([figures.hours for figures in recent], axis=0)
    begin, end = _largest_gap(today.hours, usual)
    users = float(usual[begin:end].sum())
    share = users / float(usual.sum())
    if share < _GAP_SHARE or users < _GAP_USERS:
        return None
    return (
        f"hardly any user from {begin}:00 to {end}:00; the {len(recent)} days before had "
        f"{share:.0%} of theirs in these hours: {_MISSING}"
    )


def _largest_gap(hours: Sequence[int], usual: Float64) -> tuple[int, int]:
    """Return begin and end of the run of empty hours that usually has the most users."""
    filled = [-1, *np.flatnonzero(np.array(hours) > _EMPTY * usual).tolist(), len(hours)]
    gaps = [(before + 1, after) for before, after in itertools.pairwise(filled)]
    return max(gaps, key=lambda gap: float(usual[gap[0] : gap[1]].sum()))


def _absurdities(today: DayFigures, recent: Sequence[DayFigures]) -> list[str]:
    """Return objections to a day with few days before it."""
    sentences = []
    repeated = 1 - today.different_rows / today.rows
    if repeated > _ABSURD_REPEATS and today.rows >= _ABSURD_ROWS:
        sentences.append(f"{repeated:.1%} of the rows repeated line by line: {_TWICE}")
    for rule in _OF_VOLUME[:2] if len(recent) >= _FEW_DAYS else ():
        value, values = rule.value(today), [rule.value(figures) for figures in recent]
        if value * _ABSURD_FACTOR < min(values):
            sentences.append(rule.sentence(today, recent, rule.if_low))
        if value > _ABSURD_FACTOR * max(values):
            sentences.append(rule.sentence(today, recent, rule.if_high))
    return sentences
