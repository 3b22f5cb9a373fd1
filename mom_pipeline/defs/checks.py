"""Asset checks: what each one promises, and the verdicts on one day.

A check runs inside its asset, on every day of the run, so that a blocking one stops the days'
later assets before they start. The verdicts are plain functions of numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.core.evaluation.lift import Lift
from mom_pipeline.core.types import Array
from mom_pipeline.logs.ledger import DeliveredDay

_WHITENING_TOLERANCE = 1e-4
_COLUMNS_AT_A_TIME = 65_536
_SUM_TOLERANCE = 1e-6
_USUAL_VOLUME = (0.5, 2.0)
_POPULARITY_DRIFT = 0.25
_SHOWN_DAYS = 10
_SHOWN_COMPONENTS = 10


@dataclass(frozen=True)
class Check:
    """A promise of an asset.

    blocking: nothing is built on a day that breaks it.  severe: a person has to look at it.
    """

    asset: str
    name: str
    promise: str
    blocking: bool = False
    severe: bool = False


CHECKS = (
    Check(
        "raw_logs",
        "rows_accounted",
        "lines = header + accepted + rejected, in file, ledger and tables alike",
        blocking=True,
    ),
    Check("raw_logs", "files_taken", "no file of the day was refused", severe=True),
    Check(
        "raw_logs",
        "usual_day",
        "the day is like the days before it; one that is not is kept out",
        severe=True,
    ),
    Check("raw_logs", "usual_volume", "between half and twice the mean of the trailing week"),
    Check("raw_logs", "fresh_logs", "the day itself has log files"),
    Check("interaction_matrix", "enough_users", "N >= K^2 users, which the method asks for"),
    Check(
        "interaction_matrix",
        "steady_popularity",
        "the popularity of items moved by less than "
        f"{_POPULARITY_DRIFT} (total variation) since the day before",
    ),
    Check("m2_statistics", "finite_moments", "no sum is infinite or NaN", blocking=True),
    Check("m2_statistics", "captured", "the anchor's basis held enough of the second moment"),
    Check(
        "whitening_matrix",
        "whitens",
        f"||W.T M2 W - I|| <= {_WHITENING_TOLERANCE:g}, M2 from the rows themselves",
        blocking=True,
    ),
    Check("whitened_tensor", "finite_tensor", "no entry is infinite or NaN", blocking=True),
    Check(
        "decomposition",
        "distributions",
        "pi and every column of O are distributions",
        blocking=True,
    ),
    Check(
        "decomposition",
        "split_half",
        "two halves of the users agree on every component, by evaluation.min_agreement or more",
    ),
    Check(
        "user_personalization",
        "posteriors",
        "every user's posterior is a distribution",
        blocking=True,
    ),
    Check(
        "evaluation_metrics",
        "usual_for_the_model",
        "the model of the day before did on the day as on the days before; else it is kept out",
        severe=True,
    ),
    Check(
        "evaluation_metrics",
        "better_than_popularity",
        "Recall@20 of the model is above that of popularity",
    ),
)


@dataclass(frozen=True)
class Verdict:
    """How a check ended on one day, with what it looked at in words."""

    check: str
    passed: bool
    seen: str


def rows_accounted(delivered: DeliveredDay) -> Verdict:
    """The ledger's lines, header, accepted, rejected against the rows of the tables."""
    d = delivered
    in_ledger = d.lines == d.header + d.accepted + d.rejected
    in_tables = (d.rows, d.quarantined) == (d.accepted, d.rejected)
    seen = (
        f"{d.lines} lines; ledger: {d.header} header + {d.accepted} accepted + {d.rejected} "
        f"rejected; tables: {d.rows} rows, {d.quarantined} in quarantine"
    )
    return Verdict("rows_accounted", in_ledger and in_tables, seen)


def files_taken(refused: Mapping[str, str]) -> Verdict:
    """The files of the day that were refused, with the reason."""
    seen = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return Verdict("files_taken", not refused, f"refused: {seen}" if refused else "all taken")


def usual_day(kept_out: str) -> Verdict:
    """Why the day was kept out, if it was."""
    return Verdict("usual_day", not kept_out, f"kept out: {kept_out}" if kept_out else "as usual")


def usual_for_the_model(lift: Lift | None, objection: str | None, *, accepted: bool) -> Verdict:
    """How the model of the day before did on the day; a person may have taken it in."""
    if objection:
        said = "taken in by a person" if accepted else "kept out"
        return Verdict("usual_for_the_model", accepted, f"{said}: {objection}")
    seen = f"lift {lift.value:.2f} over popularity" if lift else "nothing to compare yet"
    return Verdict("usual_for_the_model", True, seen)


def usual_volume(rows: int, trailing: Sequence[int]) -> Verdict:
    """Rows of the day against the mean of the week before."""
    if not trailing:
        return Verdict("usual_volume", True, f"{rows} rows; no earlier day to compare with")
    mean = sum(trailing) / len(trailing)
    low, high = _USUAL_VOLUME
    passed = low * mean <= rows <= high * mean
    return Verdict("usual_volume", passed, f"{rows} rows; trailing week: {mean:.0f} a day")


def fresh_logs(day: date, newest: date | None) -> Verdict:
    """The newest delivery up to the day is of the day itself."""
    return Verdict("fresh_logs", newest == day, f"newest delivery up to {day}: {newest or 'none'}")


def enough_users(n_users: int, n_components: int) -> Verdict:
    """The paper asks for N >= K^2 users."""
    seen = f"{n_users} users, K^2 = {n_components**2}"
    return Verdict("enough_users", n_users >= n_components**2, seen)


def steady_popularity(moved: float) -> Verdict:
    """Total variation between the popularities of two days."""
    return Verdict("steady_popularity", moved <= _POPULARITY_DRIFT, f"moved by {moved:.3f}")


def finite(check: str, *arrays: Array) -> Verdict:
    """No entry of any array is NaN or infinite."""
    bad = sum(int((~np.isfinite(array)).sum()) for array in arrays)
    return Verdict(check, bad == 0, f"{bad} non-finite entries")


def captured(share: float, threshold: float) -> Verdict:
    """Share of the second moment inside the span, before any rebuild of the day."""
    return Verdict("captured", share >= threshold, f"{share:.4f} of the second moment")


def whitens(error: float) -> Verdict:
    """The distance of W.T M2 W from the identity."""
    return Verdict("whitens", error <= _WHITENING_TOLERANCE, f"||W.T M2 W - I|| = {error:.2e}")


def distributions(check: str, **columns: Array) -> Verdict:
    """Nothing negative, every column sums to 1."""
    wrong = [name for name, array in columns.items() if not _is_distribution(array)]
    seen = f"not distributions: {', '.join(wrong)}" if wrong else "all are"
    return Verdict(check, not wrong, seen)


def split_half(agreement: Array, weights: Array, threshold: float) -> Verdict:
    """Components that the halves of the users do not agree on, with their share of pi."""
    weak = np.flatnonzero(agreement < threshold)
    seen = f"lowest agreement {agreement.min():.2f}"
    if len(weak):
        named = ", ".join(str(k + 1) for k in weak[:_SHOWN_COMPONENTS])
        more = f" and {len(weak) - _SHOWN_COMPONENTS} more" if len(weak) > _SHOWN_COMPONENTS else ""
        seen += f"; below {threshold:g}: components {named}{more}, {weights[weak].sum():.1%} of pi"
    return Verdict("split_half", len(weak) == 0, seen)


def better_than_popularity(model: float | None, popularity: float | None) -> Verdict:
    """Recall at the cut-off nearest to 20; None where there is nothing to evaluate yet."""
    if model is None or popularity is None:
        return Verdict("better_than_popularity", True, "nothing to evaluate yet")
    seen = f"recall {model:.4f}, popularity {popularity:.4f}"
    return Verdict("better_than_popularity", model > popularity, seen)


def sound(verdicts: Sequence[Verdict]) -> bool:
    """Whether no blocking check failed."""
    blocking = {check.name for check in CHECKS if check.blocking}
    return all(verdict.passed for verdict in verdicts if verdict.check in blocking)


def check_specs(asset: str) -> list[dg.AssetCheckSpec]:
    """The checks of an asset, as Dagster declares them."""
    return [
        dg.AssetCheckSpec(
            name=check.name, asset=asset, description=check.promise, blocking=check.blocking
        )
        for check in CHECKS
        if check.asset == asset
    ]


def check_results(
    asset: str, verdicts: Mapping[str, Sequence[Verdict]]
) -> list[dg.AssetCheckResult]:
    """One result per check over all days of a run: passed when every day passed."""
    return [
        _result(
            check, {day: v for day, own in verdicts.items() for v in own if v.check == check.name}
        )
        for check in CHECKS
        if check.asset == asset
    ]


def _result(check: Check, by_day: Mapping[str, Verdict]) -> dg.AssetCheckResult:
    failed = {day: verdict.seen for day, verdict in by_day.items() if not verdict.passed}
    shown = dict(list((failed or {d: v.seen for d, v in by_day.items()}).items())[-_SHOWN_DAYS:])
    metadata: dict[str, Any] = {"days": len(by_day), "failed_days": len(failed), **shown}
    return dg.AssetCheckResult(
        check_name=check.name,
        asset_key=check.asset,
        passed=not failed,
        severity=_severity(check),
        description="; ".join(f"{day}: {seen}" for day, seen in list(shown.items())[-1:]),
        metadata=metadata,
    )


def _severity(check: Check) -> dg.AssetCheckSeverity:
    severe = check.blocking or check.severe
    return dg.AssetCheckSeverity.ERROR if severe else dg.AssetCheckSeverity.WARN


def _is_distribution(array: Array) -> bool:
    if array.ndim == 2 and array.shape[1] > _COLUMNS_AT_A_TIME:  # a file may hold them
        starts = range(0, array.shape[1], _COLUMNS_AT_A_TIME)
        return all(_is_distribution(array[:, i : i + _COLUMNS_AT_A_TIME]) for i in starts)
    sums = array.sum(axis=0, dtype=np.float64)
    return bool(
        np.isfinite(array).all()
        and (array >= 0).all()
        and (np.abs(sums - 1) <= _SUM_TOLERANCE).all()
    )
