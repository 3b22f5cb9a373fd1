"""The gate: whether a challenger may take the champion's place.

    d = AP of the challenger - AP of the rival, by user, on the same users and days

The rival is the champion, or popularity when there is none. The first model must be shown to
beat popularity: the paired bootstrap interval of mean d lies above 0. A later one must be shown
to lose no more than is allowed: the interval lies above -max_loss times the champion's MAP. So
little evidence keeps the champion, and the same model again (d = 0) passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.evaluation.bootstrap import paired_interval
from mom_pipeline.core.types import Array

POPULARITY = "popularity"
LEVEL = 0.95


@dataclass(frozen=True)
class Contest:
    """Average precision of the challenger and of its rival, (users,) each, in the same order.

    rival: a version, or POPULARITY.  how: in words, what was compared.
    """

    rival: str
    challenger_ap: Array
    rival_ap: Array
    how: str


@dataclass(frozen=True)
class Decision:
    """What the gate said. difference, low, high: of the MAP; NaN when nothing was compared."""

    passed: bool
    words: str
    difference: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")


def decide(
    contest: Contest | None,
    objections: Sequence[str],
    *,
    max_loss: float,
    rng: np.random.Generator,
) -> Decision:
    """Apply the gate.

    contest: None when there were no days to compare on.  objections: what speaks against the
    challenger whatever it scores, such as a failed check or a number that is not finite.
    max_loss: a share of the champion's MAP.
    """
    if objections:
        return Decision(False, "kept out: " + "; ".join(objections))
    if contest is None:
        return Decision(False, "kept out: there are no days yet to compare it on")
    if not (np.isfinite(contest.challenger_ap).all() and np.isfinite(contest.rival_ap).all()):
        return Decision(False, "kept out: the precision of some user is not finite")
    d, low, high = (
        float(value)
        for value in paired_interval(contest.challenger_ap, contest.rival_ap, rng, level=LEVEL)
    )
    first = contest.rival == POPULARITY
    bound = 0.0 if first else -max_loss * float(contest.rival_ap.mean())
    # The same lists twice are no loss, even where none is allowed.
    passed = low > bound if first else low >= bound
    return Decision(passed, _words(contest, d, low, high, bound, passed=passed), d, low, high)


def _words(
    contest: Contest, d: float, low: float, high: float, bound: float, *, passed: bool
) -> str:
    verdict = "passed" if passed else "kept out"
    asked = (
        "the first model must beat popularity"
        if contest.rival == POPULARITY
        else f"the interval must not reach below {bound:+.5f}"
    )
    return (
        f"{verdict}: MAP {contest.challenger_ap.mean():.4f} against {contest.rival_ap.mean():.4f} "
        f"of {contest.rival}, difference {d:+.5f} [{low:+.5f}, {high:+.5f}] "
        f"({len(contest.rival_ap):,} users; {asked}; {contest.how})"
    )
