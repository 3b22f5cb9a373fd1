"""What speaks against taking a delivery day in: its figures beside those of the days before.

Every figure is compared on the scale of logarithms, in units of its own spread on the admitted days
before; see `distance`. A verdict depends on the rows of the day and of these days, on nothing else.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from mom_pipeline.core.types import Float64
from mom_pipeline.logs.day_figures import DayFigures
from mom_pipeline.logs.rules import ENOUGH_DAYS, Log, Logit, Rule

# Days before that a day is compared with.
RECENT_DAYS = 56

# With fewer days only absurd ones are objected to: most rows repeated, or ten times more or less
# than on any of at least three days before.
_FEW_DAYS, _ABSURD_REPEATS, _ABSURD_FACTOR, _ABSURD_ROWS = 3, 0.8, 10, 100
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


_MISSING = "part of the file may be missing"
_TWICE = "lines may have been delivered more than once"
_NOT_THEIRS = "ids may be shifted, or those of another source"
_NOT_THEIR_ITEMS = "users may have been given the items of others"
_OF_VOLUME = (
    Rule(
        "{} rows",
        lambda day: day.rows,
        5.0,
        10.0,
        _MISSING,
        "lines may have been repeated, or made by a program",
        number="{:,.0f}",
        scale=Log(),
        least_spread=0.1,
    ),
    Rule(
        "{} users",
        lambda day: day.users,
        3.0,
        10.0,
        _MISSING,
        _NOT_THEIRS,
        number="{:,.0f}",
        scale=Log(),
        least_spread=0.1,
    ),
    Rule(
        "{} rows per user (geometric mean)",
        lambda day: math.exp(day.log_rows_per_user),
        3.0,
        6.0,
        _MISSING,
        "lines may have been repeated, or made by a program",
        number="{:.1f}",
        scale=Log(),
        least_spread=0.1,
    ),
)
_OF_CONTENT = (
    Rule(
        "{} of the rows by one user",
        lambda day: day.most_rows / day.rows,
        high=6.0,
        if_high="rows of several users may stand under one id",
    ),
    Rule(
        "{} of the rows repeated line by line",
        lambda day: 1 - day.different_rows / day.rows,
        high=6.0,
        if_high=_TWICE,
    ),
    Rule(
        "{} of the lines rejected",
        lambda day: day.rejected / max(day.lines, 1),
        high=6.0,
        if_high="the file may have another form",
    ),
    Rule(
        "{} of the users new",
        lambda day: 1 - day.known_users / day.users,
        high=6.0,
        if_high=_NOT_THEIRS,
        counted=True,
        of_users=True,
        of_past=True,
    ),
    Rule(
        "{} of the known users seen in the week before",
        lambda day: day.lately_users / max(day.known_users, 1),
        low=6.0,
        if_low=_NOT_THEIRS,
        scale=Logit(0.05),
        least_spread=0.2,
        counted=True,
        of_users=True,
        of_past=True,
    ),
    Rule(
        "{} of a user's items new",
        lambda day: day.new_items,
        high=6.0,
        if_high=_NOT_THEIRS,
        least_spread=0.6,
        of_users=True,
        of_past=True,
    ),
    Rule(
        "{} of a known user's items taken before by the same user",
        lambda day: day.taken_again,
        4.75,
        6.0,
        _NOT_THEIR_ITEMS,
        _NOT_THEIR_ITEMS,
        scale=Logit(0.01),
        least_spread=0.2,
        of_users=True,
        of_past=True,
    ),
    Rule(
        "the day's items had {} of a million rows of four weeks (geometric mean)",
        lambda day: 1e6 * math.exp(day.log_item_share),
        low=5.0,
        if_low="items may be random, shifted, or those of another source",
        number="{:,.1f}",
        scale=Log(),
        least_spread=0.12,
        per_user=0.5,
        of_users=True,
        of_past=True,
    ),
)


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
