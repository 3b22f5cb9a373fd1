"""How often people took what they were shown, with intervals, and the two arms of a trial."""

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mom_pipeline.errors import MomError
from mom_pipeline.groups.people import share_interval
from mom_pipeline.serving.events import EventStore

_Z = 1.959964  # of 95 %
By = Literal["day", "version", "place"]
# How many are told: the newest ones, or the first.
_TOLD_OF: dict[By, tuple[str, int]] = {
    "day": ("DESC", 35),
    "version": ("DESC", 10),
    "place": ("ASC", 20),
}
_RATES = """
WITH
    all_shown AS (SELECT {by} AS of, count(*) AS n FROM shown GROUP BY 1),
    taken AS (
        SELECT {by} AS of, type, count(*) AS n
        FROM followed JOIN shown ON shown.id = followed.shown GROUP BY 1, 2
    ),
    kinds AS (SELECT type FROM taken UNION SELECT 'any' WHERE NOT EXISTS (SELECT * FROM taken))
SELECT of, type, all_shown.n, coalesce(taken.n, 0)
FROM all_shown JOIN kinds LEFT JOIN taken USING (of, type)
WHERE of IN (SELECT of FROM all_shown ORDER BY of {order} LIMIT ?)
ORDER BY of, type
"""
_ARMS = """
SELECT of_trial, count(*), sum(n), sum(y), sum(n * n), sum(y * y), sum(n * y)
FROM (
    SELECT version = ? AS of_trial, count(*) AS n, count(followed.shown) AS y
    FROM shown LEFT JOIN (SELECT DISTINCT shown FROM followed) AS followed ON shown = id
    WHERE trial = ? AND day >= ?
    GROUP BY user, 1
)
GROUP BY 1
"""


class NotShownBetter(MomError):
    """A version whose trial does not show that it is better."""


@dataclass(frozen=True)
class Rate:
    """Of the items that were shown on a day, by a version, or at a place: how many were taken."""

    by: By
    of: str
    type: str
    shown: int
    taken: int
    share: float
    low: float  # of the share, an interval of 95 % (Wilson, 1927)
    high: float


@dataclass(frozen=True)
class Trial:
    """A version that answers a share of the users beside the model in use, since a day."""

    version: str
    share: float
    since: str

    def has(self, user: str) -> bool:
        """Whether a user belongs to it: always the same ones."""
        digest = hashlib.sha256(f"{self.version} {user}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.share * 2**64


@dataclass(frozen=True)
class Arm:
    """Sums over the users of an arm. n: items that each was shown.  y: of these, those taken."""

    users: int = 0
    n: int = 0
    y: int = 0
    nn: int = 0
    yy: int = 0
    ny: int = 0

    @property
    def share(self) -> float:
        return self.y / max(self.n, 1)

    @property
    def variance(self) -> float:
        """Of the share: users are drawn, not items (delta method)."""
        if self.users < 2 or not self.n:
            return math.inf
        squares = self.yy - 2 * self.share * self.ny + self.share**2 * self.nn
        return squares / self.n**2 * self.users / (self.users - 1)


@dataclass(frozen=True)
class Difference:
    """The share taken in the trial, less that with the model in use, and an interval of 95 %."""

    control: Arm
    trial: Arm
    difference: float
    low: float | None
    high: float | None
    more_users: int | None  # until the interval leaves 0 out, as the difference is; None unknown


def difference(control: Arm, trial: Arm) -> Difference:
    """Compare two arms."""
    d, error = trial.share - control.share, _Z * math.sqrt(control.variance + trial.variance)
    if not math.isfinite(error):
        return Difference(control, trial, d, None, None, None)
    users = control.users + trial.users
    more = None if d == 0 else max(0, math.ceil(users * ((error / d) ** 2 - 1)))
    return Difference(control, trial, d, d - error, d + error, more)


def trial_difference(store: EventStore, trial: Trial) -> Difference:
    """What came of a trial so far."""
    found = store.rows(_ARMS, trial.version, trial.version, trial.since)
    arms = {of_trial: Arm(*sums) for of_trial, *sums in found}
    return difference(arms.get(0, Arm()), arms.get(1, Arm()))


def require_better(store: EventStore, trial: Trial | None, version: str | None) -> None:
    """Raise NotShownBetter unless the interval of a version's trial lies above 0."""
    if trial is None or trial.version != version:
        raise NotShownBetter(f"{version} is not on trial; `mom-pipeline serve --ab {version}=10%`")
    found = trial_difference(store, trial)
    if found.low is None or found.high is None or found.low <= 0:
        more = "" if found.more_users is None else f"; {found.more_users:,} more users may show it"
        interval = "" if found.low is None else f" [{found.low:+.4f}, {found.high:+.4f}]"
        raise NotShownBetter(
            f"{version} is not shown to be better: difference {found.difference:+.4f}{interval} of "
            f"{found.control.users:,} and {found.trial.users:,} users{more}"
        )


def rates(store: EventStore) -> list[Rate]:
    """The rates by day, by version and by place, of each type of event; the newest ones."""
    return [
        Rate(by, str(of), kind, n, taken, taken / n, *wilson(taken, n))
        for by, (order, most) in _TOLD_OF.items()
        for of, kind, n, taken in store.rows(_RATES.format(by=by, order=order), most)
    ]


def wilson(k: int, n: int) -> tuple[float, float]:
    """Return an interval of 95 % of a share, k of n."""
    low, high = share_interval(np.array(k), n)
    return float(low), float(high)
