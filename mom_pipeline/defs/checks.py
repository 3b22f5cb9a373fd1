"""Asset checks: what each one promises, and the verdicts on one day.

A check runs inside its asset, on every day of the run, so that a blocking one stops the days'
later assets before they start; every day has a verdict of its own. The verdicts are plain
functions of numbers. Where there is too little to judge by, a check passes and says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

import dagster as dg
import numpy as np
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)

from mom_pipeline.core.evaluation.lift import Lift
from mom_pipeline.core.types import Array
from mom_pipeline.defs.partitions import DAILY
from mom_pipeline.logs.ledger import DeliveredDay
from mom_pipeline.settings import Settings

# What a verdict is about; without it the pages take a check for one of an earlier day's contents.
# Dagster, which is pinned, makes it itself for a run of one day, and does not export the type.
Target: TypeAlias = AssetCheckEvaluationTargetMaterializationData

_WHITENING_TOLERANCE = 1e-4
_COLUMNS_AT_A_TIME = 65_536
_SUM_TOLERANCE = 1e-6
_USUAL_VOLUME = (0.5, 2.0)
_POPULARITY_DRIFT = 0.25
_NOT_ENOUGH = "not enough data"
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
    Check(
        "interaction_matrix",
        "steady_popularity",
        "the popularity of items moved by less than "
        f"{_POPULARITY_DRIFT} (total variation) since the day before",
    ),
    Check("m2_statistics", "finite_moments", "no sum is infinite or NaN", blocking=True),
    Check("m2_statistics", "enough_users", "N >= K^2 users, which the method asks for"),
    Check(
        "m2_statistics",
        "captured",
        "the anchor's basis holds enough of the second moment, or the day was rebuilt",
    ),
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


def too_early(settings: Settings, day: date) -> str:
    """Why the logs are too young for a verdict on the model of a day; "" when they are not.

    As for the choice of settings and the backtest, it takes `evaluation.horizon_days` days before.
    """
    number = (day - settings.first_and_last_day()[0]).days + 1
    needed = settings.evaluation.horizon_days + 1
    if number >= needed:
        return ""
    return f"{_NOT_ENOUGH}: day {number} of the logs, judged from day {needed} on"


def enough_users(n_users: int, n_components: int, early: str) -> Verdict:
    """The paper asks for N >= K^2 users. early: why it is too early to ask, or ""."""
    enough = n_users >= n_components**2
    seen = f"{n_users} users, K^2 = {n_components**2}"
    return _unless_early("enough_users", enough, seen, early)


def steady_popularity(moved: float) -> Verdict:
    """Total variation between the popularities of two days."""
    return Verdict("steady_popularity", moved <= _POPULARITY_DRIFT, f"moved by {moved:.3f}")


def finite(check: str, *arrays: Array) -> Verdict:
    """No entry of any array is NaN or infinite."""
    bad = sum(int((~np.isfinite(array)).sum()) for array in arrays)
    return Verdict(check, bad == 0, f"{bad} non-finite entries")


def captured(share: float, threshold: float, rebuilt: str) -> Verdict:
    """Share of the second moment inside the span of the days before. rebuilt: why, or ""."""
    seen = f"rebuilt: {rebuilt}" if rebuilt else f"{share:.4f} of the second moment"
    return Verdict("captured", bool(rebuilt) or share >= threshold, seen)


def whitens(error: float) -> Verdict:
    """The distance of W.T M2 W from the identity."""
    return Verdict("whitens", error <= _WHITENING_TOLERANCE, f"||W.T M2 W - I|| = {error:.2e}")


def distributions(check: str, **columns: Array) -> Verdict:
    """Nothing negative, every column sums to 1."""
    wrong = [name for name, array in columns.items() if not _is_distribution(array)]
    seen = f"not distributions: {', '.join(wrong)}" if wrong else "all are"
    return Verdict(check, not wrong, seen)


def split_half(agreement: Array, weights: Array, threshold: float, early: str) -> Verdict:
    """Components that the halves of the users do not agree on, with their share of pi.

    early: why it is too early to ask, or "".
    """
    weak = np.flatnonzero(agreement < threshold)
    seen = f"lowest agreement {agreement.min():.2f}"
    if len(weak):
        named = ", ".join(str(k + 1) for k in weak[:_SHOWN_COMPONENTS])
        more = f" and {len(weak) - _SHOWN_COMPONENTS} more" if len(weak) > _SHOWN_COMPONENTS else ""
        seen += f"; below {threshold:g}: components {named}{more}, {weights[weak].sum():.1%} of pi"
    return _unless_early("split_half", len(weak) == 0, seen, early)


def _unless_early(check: str, passed: bool, seen: str, early: str) -> Verdict:
    if passed or not early:
        return Verdict(check, passed, seen)
    return Verdict(check, True, f"{early} ({seen})")


def better_than_popularity(model: float | None, popularity: float | None) -> Verdict:
    """Recall at the cut-off nearest to 20; None where there is nothing to evaluate yet."""
    if model is None or popularity is None:
        return Verdict("better_than_popularity", True, f"{_NOT_ENOUGH}: nothing to evaluate yet")
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
            name=check.name,
            asset=asset,
            description=check.promise,
            blocking=check.blocking,
            partitions_def=DAILY,
        )
        for check in _checks_of(asset)
    ]


def check_outputs(asset: str) -> list[dg.Output[None]]:
    """What Dagster expects of a step beside the verdicts: an output for each check."""
    return [
        dg.Output(None, output_name=spec.get_python_identifier()) for spec in check_specs(asset)
    ]


def evaluations(
    asset: str, verdicts: Mapping[str, Sequence[Verdict]], targets: Mapping[str, Target]
) -> list[dg.AssetCheckEvaluation]:
    """The verdict of every check on every day of a run.

    targets: the materializations of these days, which the verdicts are about.
    """
    return [
        _evaluation(check, day, _verdict(check, own), targets.get(day))
        for check in _checks_of(asset)
        for day, own in verdicts.items()
    ]


def _checks_of(asset: str) -> list[Check]:
    return [check for check in CHECKS if check.asset == asset]


def _verdict(check: Check, verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a check on one day; a day that had too little for a model has none."""
    none = Verdict(check.name, True, _NOT_ENOUGH)
    return next((verdict for verdict in verdicts if verdict.check == check.name), none)


def _evaluation(
    check: Check, day: str, verdict: Verdict, target: Target | None
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(check.asset),
        check_name=check.name,
        passed=verdict.passed,
        severity=_severity(check),
        description=f"{day}: {verdict.seen}",
        blocking=check.blocking,
        partition=day,
        target_materialization_data=target,
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
