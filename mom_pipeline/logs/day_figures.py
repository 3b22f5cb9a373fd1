"""Figures of a delivery day, and what speaks against taking it in.

A figure is judged on the scale of logarithms, against the same figure of the admitted days before:
its distance from their median, in units of their spread. Weekdays have their own level. A verdict
depends on the rows of the day and of the admitted days before it, on nothing else.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Self

import numpy as np

from mom_pipeline.core.evaluation.usual import distance
from mom_pipeline.core.types import Float64
from mom_pipeline.warehouse.connection import Connection, load_sql

# Days before that a day is compared with, and how many of them it takes to say anything.
RECENT_DAYS = 28
ENOUGH_DAYS = 7

# Shares below this one are all alike: it is added before the logarithm.
_RARE = 0.02
# Hours count as empty with less than a fifth of the usual users; a gap is objected to when it
# usually holds a quarter of the day's users, and so many that chance does not explain it.
_EMPTY, _GAP_SHARE, _GAP_USERS = 0.2, 0.25, 8.0


@dataclass(frozen=True)
class DayFigures:
    """What a delivery day's rows look like beside those of the admitted days before it.

    days_before: admitted days with rows.
    different_rows: rows that differ in user, item or time.
    most_rows: of one user.  known_users: with rows before.  lately_users: in the week before.
    lines, rejected: of the day's files.  hours: users in each hour of the day.
    Means over the day's users: log_rows_per_user; new_items, the share of the user's items
    that nobody had before; taken_again, of known users the share of items that they had before;
    log_item_share, of the share of an item in the rows of the four weeks before.
    """

    day: date
    days_before: int
    rows: int
    different_rows: int
    users: int
    known_users: int
    lately_users: int
    most_rows: int
    lines: int
    rejected: int
    log_rows_per_user: float
    new_items: float
    taken_again: float
    log_item_share: float
    hours: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` reads them back."""
        return {**asdict(self), "day": self.day.isoformat(), "hours": list(self.hours)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        day, hours = date.fromisoformat(values["day"]), tuple(values["hours"])
        return cls(**{**values, "day": day, "hours": hours})


def day_figures(connection: Connection, day: date) -> DayFigures:
    """Return the figures of a delivery day from `raw_logs`, `admitted_logs` and the ledger."""
    cursor = connection.execute(load_sql("logs/day_figures.sql"), {"day": day.isoformat()})
    names = [column[0] for column in cursor.description or []]
    (row,) = cursor.fetchall()
    # Rounded: the last digits of a sum depend on the order in which threads add.
    values: dict[str, Any] = {
        name: round(value, 9) if isinstance(value, float) else value or 0
        for name, value in zip(names, row, strict=True)
    }
    values["hours"] = tuple(values["hours"])
    return DayFigures(day=day, **values)


def objections(today: DayFigures, recent: Sequence[DayFigures]) -> list[str]:
    """Return what speaks against a day, each a sentence with its numbers; empty: nothing.

    recent: figures of the admitted days before with rows, oldest first; the last `RECENT_DAYS`
    of them are used. With fewer than `ENOUGH_DAYS` only absurd days are objected to.
    """
    recent = [figures for figures in recent[-RECENT_DAYS:] if figures.rows]
    if not today.rows:
        return []
    if len(recent) < ENOUGH_DAYS:
        return _absurdities(today)
    sentences = [rule.objection(today, recent) for rule in _RULES]
    return [sentence for sentence in [*sentences, _gap_objection(today, recent)] if sentence]


def _log(value: float) -> float:
    return math.log(max(value, 1e-12))


def _logit(share: float) -> float:
    return math.log((share + _RARE) / (1 - share + _RARE))


@dataclass(frozen=True)
class _Rule:
    """How one figure is judged.

    shown: the figure in words.  scale: on which it is compared.
    low, high: spreads below and above the usual level from which on a day is objected to.
    least_spread: of a figure that hardly varies.
    of_users: a mean over the day's users, which varies more on a day with few of them.
    of_past: it needs days before that have a past themselves.
    """

    shown: str
    value: Callable[[DayFigures], float]
    low: float = math.inf
    high: float = math.inf
    if_low: str = ""
    if_high: str = ""
    scale: Callable[[float], float] = _log
    least_spread: float = 0.1
    of_users: bool = False
    of_past: bool = False

    def objection(self, today: DayFigures, recent: Sequence[DayFigures]) -> str | None:
        if self.of_past:
            recent = [figures for figures in recent if figures.days_before >= ENOUGH_DAYS]
        if len(recent) < ENOUGH_DAYS:
            return None
        beyond = self.distance(today, recent)
        if beyond < -self.low:
            return self._sentence(today, recent, self.if_low)
        if beyond > self.high:
            return self._sentence(today, recent, self.if_high)
        return None

    def distance(self, today: DayFigures, recent: Sequence[DayFigures]) -> float:
        """Return how many spreads above the usual level the day is; negative: below."""
        usual_users = float(np.median([figures.users for figures in recent]))
        beyond = distance(
            self.scale(self.value(today)),
            [self.scale(self.value(figures)) for figures in recent],
            least_spread=max(self.least_spread, usual_users**-0.5),
            weekdays=[figures.day.weekday() for figures in recent],
            weekday=today.day.weekday(),
        )
        noise = math.sqrt(max(1.0, usual_users / today.users)) if self.of_users else 1.0
        return beyond / noise

    def _sentence(self, today: DayFigures, recent: Sequence[DayFigures], meaning: str) -> str:
        value, values = self.value(today), [self.value(figures) for figures in recent]
        which = f"the {len(recent)} days before"
        if min(values) <= value <= max(values):
            same = [f for f in recent if f.day.weekday() == today.day.weekday()]
            values, which = [self.value(f) for f in same], f"the {today.day:%A}s before"
        low, high = self.shown.format(min(values)), self.shown.format(max(values))
        return f"{self.shown.format(value)}; {which} had {low} to {high}: {meaning}"


_MISSING = "part of the file may be missing"
_TWICE = "lines may have been delivered more than once"
_NOT_THEIRS = "ids may be shifted, or those of another source"
_NOT_THEIR_ITEMS = "users may have been given the items of others"
_RULES = (
    _Rule("{:,.0f} rows", lambda day: day.rows, 5.0, 10.0, _MISSING, _TWICE),
    _Rule("{:,.0f} users", lambda day: day.users, 2.75, 10.0, _MISSING, _NOT_THEIRS),
    _Rule(
        "{:.1f} rows per user (geometric mean)",
        lambda day: math.exp(day.log_rows_per_user),
        4.0,
        6.0,
        _MISSING,
        "rows may have been repeated, or made by a program",
    ),
    _Rule(
        "{:.1%} of the rows by one user",
        lambda day: day.most_rows / day.rows,
        high=6.0,
        if_high="rows of several users may stand under one id",
        scale=_logit,
        least_spread=0.4,
    ),
    _Rule(
        "{:.1%} of the rows repeated line by line",
        lambda day: 1 - day.different_rows / day.rows,
        high=6.0,
        if_high=_TWICE,
        scale=_logit,
        least_spread=0.4,
    ),
    _Rule(
        "{:.1%} of the lines rejected",
        lambda day: day.rejected / max(day.lines, 1),
        high=6.0,
        if_high="the file may have another form",
        scale=_logit,
        least_spread=0.4,
    ),
    _Rule(
        "{:.1%} of the users new",
        lambda day: 1 - day.known_users / day.users,
        high=6.0,
        if_high=_NOT_THEIRS,
        scale=_logit,
        least_spread=0.4,
        of_users=True,
        of_past=True,
    ),
    _Rule(
        "{:.1%} of the known users seen in the week before",
        lambda day: day.lately_users / max(day.known_users, 1),
        low=6.0,
        if_low=_NOT_THEIRS,
        scale=_logit,
        least_spread=0.2,
        of_users=True,
        of_past=True,
    ),
    _Rule(
        "{:.1%} of a user's items new",
        lambda day: day.new_items,
        high=6.0,
        if_high=_NOT_THEIRS,
        scale=_logit,
        least_spread=0.4,
        of_users=True,
        of_past=True,
    ),
    _Rule(
        "{:.1%} of a known user's items taken before by the same user",
        lambda day: day.taken_again,
        5.0,
        8.0,
        _NOT_THEIR_ITEMS,
        _NOT_THEIR_ITEMS,
        scale=_logit,
        least_spread=0.2,
        of_users=True,
        of_past=True,
    ),
    _Rule(
        "{:.4%} of the rows of four weeks by one of the day's items (geometric mean)",
        lambda day: math.exp(day.log_item_share),
        low=5.0,
        if_low="items may be random, shifted, or those of another source",
        of_users=True,
        of_past=True,
    ),
)


def _gap_objection(today: DayFigures, recent: Sequence[DayFigures]) -> str | None:
    """Return an objection to hours in a row without users in which many are usual."""
    usual = np.mean([figures.hours for figures in recent], axis=0)
    begin, end = _longest_gap(today.hours, usual)
    users = float(usual[begin:end].sum())
    share = users / float(usual.sum())
    if share < _GAP_SHARE or users < _GAP_USERS:
        return None
    return (
        f"hardly any user from {begin}:00 to {end}:00, when the {len(recent)} days before had "
        f"{share:.0%} of theirs: {_MISSING}"
    )


def _longest_gap(hours: Sequence[int], usual: Float64) -> tuple[int, int]:
    """Return the hours from begin to end that are empty, the run with the most usual users."""
    full = [-1, *np.flatnonzero(np.array(hours) > _EMPTY * usual).tolist(), len(hours)]
    gaps = [(before + 1, after) for before, after in itertools.pairwise(full)]
    return max(gaps, key=lambda gap: float(usual[gap[0] : gap[1]].sum()))


def _absurdities(today: DayFigures) -> list[str]:
    """Return objections that need no day before."""
    return []
