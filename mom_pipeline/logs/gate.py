"""Admission of delivery days: which of them count.

A day is excluded when its figures are far from those of its own last eight weeks, or when its users
do not take what goes with what they took before (`cooccurrence_lift`). It stays in `raw_logs`, but
not in the view `admitted_logs`.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.core.evaluation.cooccurrence_lift import NO_LIFT, Lift, cooccurrence_lift
from mom_pipeline.core.evaluation.robust_level import RobustLevel
from mom_pipeline.core.types import Csr, Float64
from mom_pipeline.logs.ledger import contents_of_day
from mom_pipeline.warehouse.connection import Connection, load_sql, put_row, records

# Days with rows that tell what is usual, and how many of them it takes.
_RECENT_DAYS, _ENOUGH_DAYS = 56, 7
# Days in a row that are excluded before what they show counts as the new usual.
_LASTING_DAYS = 3
# Days whose figures are made at once: as many as the quarter that they are compared with.
_DAYS_AT_ONCE = 91
# With fewer days only absurd ones are excluded: most rows repeated, or ten times more or less than
# on any of at least three days before.
_FEW_DAYS, _ABSURD_REPEATS, _ABSURD_FACTOR, _ABSURD_ROWS = 3, 0.8, 10, 100
# An hour is empty with less than a fifth of its usual users. A gap of such hours counts when it
# usually has a quarter of the day's users, and more than chance can leave out.
_EMPTY, _GAP_SHARE, _GAP_USERS = 0.2, 0.25, 8.0
# Weekdays differ by so much; it is allowed for until a day's weekday was seen twice.
_WEEKDAYS_DIFFER = 0.25
# What a level may have moved by in a day without admitted rows.
_DAILY_DRIFT = 0.05
# Spreads below the usual lift from which on a day is excluded, the least spread, and users needed.
# Chosen on 30Music: 1 of 366 normal days is beyond it; none of 36 with shifted items is admitted.
_LIFT_LIMIT, _LIFT_SPREAD, _LIFT_USERS = 3.2, 0.06, 10


@dataclass(frozen=True)
class DayFigures:
    """What a delivery day looks like beside the admitted days of the quarter before it.

    rows_per_user: geometric mean.  top_user_share: of the rows, of one user.  repeated_share: of
    the rows, equal to another.  rejected_share: of the lines.  lately_share: of the known users,
    those seen in the week before.  hours: users in each hour of the day.  rush_share: of the users,
    newcomers who took the same item, beyond the most rows that it had on any day before.
    Means over the day's users, each of which counts once: new_item_share, of items that nobody had;
    taken_again_share, of items that a known user had; item_popularity, rows of a known item in a
    million of four weeks (geometric mean).
    history_lift, half_lift: see `cooccurrence_lift`.
    """

    day: date
    days_before: int
    rows: int
    repeated_share: float
    users: int
    rows_per_user: float
    top_user_share: float
    new_user_share: float
    lately_share: float
    new_item_share: float
    taken_again_share: float
    item_popularity: float
    rejected_share: float
    hours: tuple[int, ...]
    rush_share: float = 0.0
    history_lift: Lift = NO_LIFT
    half_lift: Lift = NO_LIFT

    def numbers(self) -> dict[str, float]:
        """Return the figures that are single numbers, by name."""
        lifts = {"history_lift": self.history_lift.value, "half_lift": self.half_lift.value}
        values = {name: v for name, v in vars(self).items() if isinstance(v, (int, float))}
        return {**values, **(lifts if self.history_lift.n_users else {})}

    def as_json(self) -> str:
        return json.dumps({**asdict(self), "day": self.day.isoformat()})

    @classmethod
    @lru_cache(2 * _RECENT_DAYS)
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        values |= {name: Lift(*values[name]) for name in ("history_lift", "half_lift")}
        values |= {"day": date.fromisoformat(values["day"]), "hours": tuple(values["hours"])}
        return cls(**values)


@dataclass(frozen=True)
class DayVerdict:
    """Whether a day counts. reasons: what speaks against it, also where a person accepted it."""

    reasons: list[str]
    figures: dict[str, float]
    accepted_by_person: bool

    @property
    def admitted(self) -> bool:
        return self.accepted_by_person or not self.reasons


def admit(connection: Connection, day: date, X_before: Csr | None) -> DayVerdict:
    """Decide whether a delivery day counts, by the interactions before it; store the verdict."""
    (figures,) = day_figures(connection, [day])
    if X_before is None or not X_before.nnz:
        return _judge(connection, figures)
    # The day's interactions of users and items that have positions there.
    rows = connection.execute(
        "SELECT DISTINCT users.position AS user_position, items.position AS item_position "
        "FROM raw_logs JOIN user_dictionary AS users USING (user_id) "
        "JOIN item_dictionary AS items USING (item_id) WHERE delivery_day = $day "
        "AND weight > 0 AND users.position < $n_users AND items.position < $n_items ORDER BY ALL",
        {"day": day, "n_users": X_before.shape[0], "n_items": X_before.shape[1]},
    ).fetchnumpy()
    users, items = (np.asarray(rows[f"{kind}_position"]) for kind in ("user", "item"))
    known = csr_array((np.ones(len(users)), (users, items)), shape=X_before.shape)
    lifts = cooccurrence_lift(X_before, known)
    history, half = (Lift(round(v, 9), n, round(error, 9)) for v, n, error in lifts)
    return _judge(connection, replace(figures, history_lift=history, half_lift=half))


def admit_unjudged(connection: Connection, before: date) -> None:
    """Judge the delivery days before a day that never were, by their figures alone, in order."""
    rows = connection.execute(
        "SELECT DISTINCT delivery_day FROM ingest_ledger WHERE delivery_day < $day "
        "AND delivery_day NOT IN (SELECT day FROM day_figures) ORDER BY ALL",
        {"day": before},
    ).fetchall()
    days = [day for (day,) in rows]
    while days:
        for figures in day_figures(connection, days[:_DAYS_AT_ONCE]):
            days.remove(figures.day)
            if not _judge(connection, figures).admitted:
                break  # the others were compared with its rows, too


def _judge(connection: Connection, figures: DayFigures) -> DayVerdict:
    """Compare a day with the days before it; store its figures and the verdict."""
    day = figures.day
    reasons = objections(figures, *earlier_figures(connection, day))
    verdict = DayVerdict(reasons, figures.numbers(), is_accepted(connection, day))
    for table in ("day_figures", "excluded_days"):
        connection.execute(f"DELETE FROM {table} WHERE day = $day", {"day": day})  # noqa: S608
    if figures.rows:
        put_row(connection, "day_figures", ["day"], day=day, figures=figures.as_json())
    if not verdict.admitted:
        put_row(connection, "excluded_days", ["day"], day=day, reason="; ".join(reasons))
    return verdict


def excluded_days(connection: Connection) -> dict[date, str]:
    """Return the days that are excluded, each with the reasons."""
    return dict(connection.execute("SELECT day, reason FROM excluded_days ORDER BY day").fetchall())


def is_accepted(connection: Connection, day: date) -> bool:
    """Return whether a person accepted the files of the day as they are."""
    rows = connection.execute(
        "SELECT contents FROM accepted_days WHERE day = $day", {"day": day}
    ).fetchall()
    return (contents_hash(contents_of_day(connection, day)),) in rows


def contents_hash(contents: Sequence[tuple[str, str]]) -> str:
    """Return a hash of the names and sha256 of a day's files."""
    return hashlib.sha256(repr(sorted(contents)).encode()).hexdigest()


def earlier_figures(connection: Connection, day: date) -> tuple[list[DayFigures], list[DayFigures]]:
    """Return the figures of the last days before a day, admitted and excluded, oldest first.

    When several days in a row were excluded, the logs have changed for good: only the days after
    them tell what is usual.
    """
    rows = connection.execute(
        "SELECT figures, day IN (SELECT day FROM excluded_days) FROM day_figures "
        "WHERE day < $day ORDER BY day DESC LIMIT $n",
        {"day": day, "n": _RECENT_DAYS},
    ).fetchall()
    admitted: list[DayFigures] = []
    excluded: list[DayFigures] = []
    in_a_row = 0
    for text, is_excluded in reversed(rows):
        in_a_row = in_a_row + 1 if is_excluded else 0
        (excluded if is_excluded else admitted).append(DayFigures.from_json(text))
        if in_a_row >= _LASTING_DAYS:
            admitted, excluded = [], []
    return admitted, excluded


def is_only_small(connection: Connection, day: date) -> bool:
    """Tell whether all that speaks against a judged day is that a part of it may be missing."""
    (text,) = connection.execute(
        "SELECT figures FROM day_figures WHERE day = $day", {"day": day}
    ).fetchall()[0]
    reasons = objections(DayFigures.from_json(text), *earlier_figures(connection, day))
    return all(reason.endswith(_MISSING) for reason in reasons)


def day_figures(connection: Connection, days: Sequence[date]) -> list[DayFigures]:
    """Return the figures of days in order, each as if those before it count, without lifts."""
    found = []
    for row in records(connection, load_sql("logs/gate.sql"), {"days": list(days)}):
        # Rounded: the last digits of a sum depend on the order in which threads add.
        values: dict[str, Any] = {
            name: float(f"{value:.10g}") if isinstance(value, float) else value or 0
            for name, value in row.items()
        }
        found.append(DayFigures(**values | {"hours": tuple(values["hours"])}))
    return found


def objections(
    today: DayFigures, admitted: Sequence[DayFigures], excluded: Sequence[DayFigures] = ()
) -> list[str]:
    """Return what speaks against a day, each a sentence with its numbers; empty: nothing.

    admitted: figures of the admitted days before, oldest first.  excluded: of the others. Their
    volume still tells what is usual: a weekday or a season that was excluded once is not excluded
    for good.
    """
    if not today.rows:
        return []
    if len(admitted) < _ENOUGH_DAYS:
        return _absurdities(today, admitted)
    everyone = sorted([*admitted, *excluded], key=lambda figures: figures.day)
    found = [rule.objection(today, everyone) for rule in _OF_VOLUME]
    found += [_gap_objection(today, everyone)]
    found += [rule.objection(today, admitted) for rule in _OF_ROWS]
    # These compare with the days before, so the days that they are compared with need a past.
    with_past = [figures for figures in admitted if figures.days_before >= _ENOUGH_DAYS]
    if len(with_past) >= _ENOUGH_DAYS:
        # Means over users vary more on a day with few of them.
        usual_users = float(np.median([figures.users for figures in with_past]))
        noise = math.sqrt(max(1.0, usual_users / today.users))
        found += [rule.objection(today, with_past, noise) for rule in _OF_USERS]
    found += [_lift_objection(today, admitted)]
    return [sentence for sentence in found if sentence]


@dataclass(frozen=True)
class Rule:
    """How one figure of a day is compared with the same figure of the days before.

    words: the figure as it is shown.  low, high: spreads below and above the usual level from which
    on a day is excluded.  rare: shares are compared as log((s + rare) / (1 - s + rare)); 0: counts,
    as logarithms.  spread: the least, of a figure that hardly varies.  per_user: the spread that
    a single user brings.  counted: a share of users, which varies by chance as such shares do.
    """

    figure: str
    words: str
    low: float = math.inf
    high: float = math.inf
    if_low: str = ""
    if_high: str = ""
    rare: float = 0.03
    spread: float = 0.4
    per_user: float = 1.0
    counted: bool = False

    def objection(
        self, today: DayFigures, recent: Sequence[DayFigures], noise: float = 1.0
    ) -> str | None:
        """Return the sentence for a day that is out of the usual, or None."""
        usual_users = float(np.median([figures.users for figures in recent]))
        by_chance = self.per_user * usual_users**-0.5
        if self.counted:
            share = float(np.median([self.value(figures) for figures in recent]))
            by_chance /= math.sqrt(max(share * (1 - share), 1 / usual_users))
        spread, unknown = max(self.spread, by_chance), _unknown(today, recent)
        usual = self._usual(today, recent)
        distance = usual.distance(self._scaled(today), least_spread=spread, unknown=unknown) / noise
        if -self.low <= distance <= self.high:
            return None
        return self.sentence(today, recent, self.if_low if distance < 0 else self.if_high)

    def sentence(self, today: DayFigures, recent: Sequence[DayFigures], meaning: str) -> str:
        """Return the day's figure, what would be usual, and the range of the days before."""
        values = [self.value(figures) for figures in recent]
        usual = math.exp(self._usual(today, recent).level)
        if self.rare:
            usual = min(max((1 + 2 * self.rare) * usual / (1 + usual) - self.rare, 0.0), 1.0)
        number = self.words[: self.words.index("}") + 1]
        expected, low, high = (number.format(value) for value in (usual, min(values), max(values)))
        return (
            f"{self.words.format(self.value(today))}; about {expected} would be usual on this "
            f"{today.day:%A}, the {len(values)} days before had {low} to {high}: {meaning}"
        )

    def value(self, figures: DayFigures) -> float:
        return float(getattr(figures, self.figure))

    def _scaled(self, figures: DayFigures) -> float:
        value = self.value(figures)
        if self.rare:
            return math.log((value + self.rare) / (1 - value + self.rare))
        return math.log(max(value, 1e-12))

    def _usual(self, today: DayFigures, recent: Sequence[DayFigures]) -> RobustLevel:
        weekdays = [figures.day.weekday() for figures in (*recent, today)]
        return RobustLevel.from_days([self._scaled(figures) for figures in recent], weekdays)


def _unknown(today: DayFigures, recent: Sequence[DayFigures]) -> float:
    """Return what the usual level is uncertain by for want of days before."""
    same = sum(figures.day.weekday() == today.day.weekday() for figures in recent)
    days_since = (today.day - recent[-1].day).days - 1
    return math.hypot(_WEEKDAYS_DIFFER * (same < 2), _DAILY_DRIFT * math.sqrt(days_since))


_MISSING = "part of the file may be missing"
_REPEATED = "lines may have been repeated, or made by a program"
_UNDER_ONE = "rows of several users may stand under one id"
_OTHER_FORM = "the file may have another form"
_NOT_THEIRS = "ids may be shifted, or those of another source"
_OF_OTHERS = "users may have been given the items of others"
_A_RUSH = "accounts may have been made to push it"
_OF_VOLUME = (
    Rule("rows", "{:,.0f} rows", 5, 10, _MISSING, _REPEATED, rare=0, spread=0.1),
    Rule("users", "{:,.0f} users", 3, 10, _MISSING, _NOT_THEIRS, rare=0, spread=0.1),
    Rule("rows_per_user", "{:.1f} rows per user", 3, 6, _MISSING, _REPEATED, rare=0, spread=0.1),
)
_OF_ROWS = (
    Rule("top_user_share", "{:.1%} of the rows by one user", high=6, if_high=_UNDER_ONE),
    Rule("repeated_share", "{:.1%} of the rows repeated", high=6, if_high=_REPEATED),
    Rule("rejected_share", "{:.1%} of the lines rejected", high=6, if_high=_OTHER_FORM),
)
_OF_USERS = (
    Rule("new_user_share", "{:.1%} of the users new", high=6, if_high=_NOT_THEIRS, counted=True),
    Rule("rush_share", "{:.1%} of the users new and with one item", high=3.5, if_high=_A_RUSH),
    Rule(
        "lately_share",
        "{:.1%} of the known users seen in the week before",
        low=6,
        if_low=_NOT_THEIRS,
        rare=0.05,
        spread=0.2,
        counted=True,
    ),
    Rule("new_item_share", "{:.1%} of a user's items new", high=6, if_high=_NOT_THEIRS, spread=0.6),
    Rule(
        "taken_again_share",
        "{:.1%} of a known user's items taken before by the same user",
        low=4.75,
        high=6,
        if_low=_OF_OTHERS,
        if_high=_OF_OTHERS,
        rare=0.01,
        spread=0.2,
    ),
    Rule(
        "item_popularity",
        "{:,.1f} of a million rows of four weeks had an item of the day (geometric mean)",
        low=5,
        if_low="items may be random, shifted, or those of another source",
        rare=0,
        spread=0.12,
        per_user=0.5,
    ),
)


def _gap_objection(today: DayFigures, recent: Sequence[DayFigures]) -> str | None:
    """Return an objection to hours in a row without users in which many are usual."""
    usual: Float64 = np.mean([figures.hours for figures in recent], axis=0)
    filled = [-1, *np.flatnonzero(np.array(today.hours) > _EMPTY * usual).tolist(), len(usual)]
    gaps = [(before + 1, after) for before, after in itertools.pairwise(filled)]
    users, begin, end = max((float(usual[a:b].sum()), a, b) for a, b in gaps)
    share = users / float(usual.sum())
    if share < _GAP_SHARE or users < _GAP_USERS:
        return None
    return (
        f"hardly any user from {begin}:00 to {end}:00; the {len(recent)} days before had "
        f"{share:.0%} of theirs in these hours: {_MISSING}"
    )


def _lift_objection(today: DayFigures, recent: Sequence[DayFigures]) -> str | None:
    """An objection where either lift is far below the usual one, or both together somewhat."""
    distances, shown = [], []
    for name in ("history_lift", "half_lift"):
        lift: Lift = getattr(today, name)
        before: list[Lift] = [getattr(figures, name) for figures in recent]
        before = [one for one in before if one.n_users >= _LIFT_USERS]
        distance, values = 0.0, [one.value for one in before] or [lift.value]
        if len(before) >= _ENOUGH_DAYS and lift.n_users >= _LIFT_USERS:
            usual = RobustLevel.from_days(list(map(math.log, values)), [0] * (1 + len(values)))
            least = max(_LIFT_SPREAD, lift.error)
            distance = usual.distance(math.log(lift.value), least_spread=least)
        distances.append(distance)
        shown.append(
            f"{lift.value:.2f} times as often as by chance ({lift.n_users:,} users; before: "
            f"{min(values):.2f} to {max(values):.2f} times)"
        )
    if min(*distances, sum(distances) / math.sqrt(2)) >= -_LIFT_LIMIT:
        return None
    return (
        f"users took what goes with their histories {shown[0]}, and with the other half of their "
        f"day {shown[1]}: {_OF_OTHERS}, or ids may be shifted"
    )


def _absurdities(today: DayFigures, recent: Sequence[DayFigures]) -> list[str]:
    """Return objections to a day with few days before it."""
    found = []
    if today.repeated_share > _ABSURD_REPEATS and today.rows >= _ABSURD_ROWS:
        found.append(f"{today.repeated_share:.1%} of the rows repeated line by line: {_REPEATED}")
    for rule in _OF_VOLUME[:2] if len(recent) >= _FEW_DAYS else ():
        value, values = rule.value(today), [rule.value(figures) for figures in recent]
        if value * _ABSURD_FACTOR < min(values):
            found.append(rule.sentence(today, recent, rule.if_low))
        if value > _ABSURD_FACTOR * max(values):
            found.append(rule.sentence(today, recent, rule.if_high))
    return found
