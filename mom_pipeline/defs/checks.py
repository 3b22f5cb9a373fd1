"""Asset checks: what each one promises, and the verdicts on one day.

A check runs inside its asset, on every day of the run, so that a blocking one stops the days'
later assets before they start; every day has a verdict of its own, with its numbers, which
Dagster plots. Where there is too little to judge by, a check passes and says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.core.evaluation.stability import MIN_AGREEMENT
from mom_pipeline.core.types import Array
from mom_pipeline.defs.names import Names
from mom_pipeline.logs.ledger import DeliveredDay
from mom_pipeline.settings import Settings

_WHITENING_TOLERANCE = 1e-4
_COLUMNS_AT_A_TIME = 65_536
_SUM_TOLERANCE = 1e-6
_USUAL_VOLUME = (0.5, 2.0)
_POPULARITY_DRIFT = 0.25
_NOT_ENOUGH = "not enough data"
_SHOWN_COMPONENTS = 10
# Dagster gives no more in one answer.
_RECORDS_AT_A_TIME = 1_000


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
    Check("raw_logs", "files_ingested", "no file of the day was refused", severe=True),
    Check("raw_logs", "usual_volume", "between half and twice the mean of the trailing week"),
    Check("raw_logs", "fresh_logs", "the day itself has log files"),
    Check(
        "interaction_matrix",
        "usual_day",
        "the day is like the days before it, and its users take what goes with what they took; "
        "a day that is not is excluded",
        severe=True,
    ),
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
        f"two halves of the users agree on every component, by {MIN_AGREEMENT} or more",
    ),
    Check(
        "user_personalization",
        "posteriors",
        "every user's posterior is a distribution",
        blocking=True,
    ),
    Check(
        "evaluation_metrics",
        "better_than_popularity",
        "Recall@20 of the model is above that of popularity",
    ),
)


@dataclass(frozen=True)
class Verdict:
    """How a check ended on one day: what it saw in words, and in numbers to be plotted."""

    check: str
    passed: bool
    seen: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def rows_accounted(delivered: DeliveredDay) -> Verdict:
    """The ledger's lines, header, accepted, rejected against the rows of the tables."""
    d = delivered
    in_ledger = d.lines == d.header + d.accepted + d.rejected
    in_tables = (d.rows, d.quarantined) == (d.accepted, d.rejected)
    seen = (
        f"{d.lines} lines; ledger: {d.header} header + {d.accepted} accepted + {d.rejected} "
        f"rejected; tables: {d.rows} rows, {d.quarantined} in quarantine"
    )
    numbers = {"lines": d.lines, "accepted": d.accepted, "rejected": d.rejected}
    return Verdict("rows_accounted", in_ledger and in_tables, seen, numbers)


def files_ingested(refused: Sequence[str]) -> Verdict:
    """The files of the day that were refused; why is for `status`: it may quote a line."""
    seen = f"refused: {', '.join(refused)}; see `mom-pipeline status`" if refused else "all were"
    return Verdict("files_ingested", not refused, seen, {"refused": len(refused)})


def usual_day(excluded: str, accepted: bool, numbers: Mapping[str, float]) -> Verdict:
    """Why the day is excluded, or would be if a person had not accepted it."""
    if accepted:
        return Verdict("usual_day", True, f"accepted by a person: {excluded}", numbers)
    seen = f"excluded: {excluded}" if excluded else "as usual"
    return Verdict("usual_day", not excluded, seen, numbers)


def usual_volume(rows: int, trailing: Sequence[int]) -> Verdict:
    """Rows of the day against the mean of the week before."""
    if not trailing:
        seen = f"{rows} rows; no earlier day to compare with"
        return Verdict("usual_volume", True, seen, {"rows": rows})
    mean = sum(trailing) / len(trailing)
    low, high = _USUAL_VOLUME
    seen = f"{rows} rows; trailing week: {mean:.0f} a day"
    numbers = {"rows": rows, "trailing_mean": mean}
    return Verdict("usual_volume", low * mean <= rows <= high * mean, seen, numbers)


def fresh_logs(day: date, newest: date | None) -> Verdict:
    """The newest delivery up to the day is of the day itself."""
    seen = f"newest delivery up to {day}: {newest or 'none'}"
    return Verdict(
        "fresh_logs", newest == day, seen, {"age": (day - newest).days} if newest else {}
    )


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
    enough, seen = n_users >= n_components**2, f"{n_users} users, K^2 = {n_components**2}"
    return _unless_early("enough_users", enough, seen, early, {"users": n_users})


def steady_popularity(moved: float) -> Verdict:
    """Total variation between the popularities of two days."""
    passed, seen = moved <= _POPULARITY_DRIFT, f"moved by {moved:.3f}"
    return Verdict("steady_popularity", passed, seen, {"moved": moved})


def finite(check: str, *arrays: Array) -> Verdict:
    """No entry of any array is NaN or infinite."""
    bad = sum(int((~np.isfinite(array)).sum()) for array in arrays)
    return Verdict(check, bad == 0, f"{bad} non-finite entries", {"non_finite": bad})


def captured(share: float, threshold: float, rebuilt: str) -> Verdict:
    """Share of the second moment inside the span of the days before. rebuilt: why, or ""."""
    seen = f"rebuilt: {rebuilt}" if rebuilt else f"{share:.4f} of the second moment"
    return Verdict("captured", bool(rebuilt) or share >= threshold, seen, {"share": share})


def whitens(error: float) -> Verdict:
    """The distance of W.T M2 W from the identity."""
    passed, seen = error <= _WHITENING_TOLERANCE, f"||W.T M2 W - I|| = {error:.2e}"
    return Verdict("whitens", passed, seen, {"error": error})


def distributions(check: str, **columns: Array) -> Verdict:
    """Nothing negative, every column sums to 1."""
    wrong = [name for name, array in columns.items() if not _is_distribution(array)]
    seen = f"not distributions: {', '.join(wrong)}" if wrong else "all are"
    return Verdict(check, not wrong, seen, {"wrong": len(wrong)})


def split_half(agreement: Array, weights: Array, early: str) -> Verdict:
    """Components that the halves of the users do not agree on, with their share of pi.

    early: why it is too early to ask, or "".
    """
    weak = np.flatnonzero(agreement < MIN_AGREEMENT)
    seen = f"lowest agreement {agreement.min():.2f}"
    if len(weak):
        named = ", ".join(str(k + 1) for k in weak[:_SHOWN_COMPONENTS])
        more = f" and {len(weak) - _SHOWN_COMPONENTS} more" if len(weak) > _SHOWN_COMPONENTS else ""
        seen += f"; below {MIN_AGREEMENT}: components {named}{more}, "
        seen += f"{weights[weak].sum():.1%} of pi"
    numbers = {"lowest_agreement": float(agreement.min()), "weak_components": len(weak)}
    return _unless_early("split_half", len(weak) == 0, seen, early, numbers)


def _unless_early(
    check: str, passed: bool, seen: str, early: str, numbers: Mapping[str, float]
) -> Verdict:
    if passed or not early:
        return Verdict(check, passed, seen, numbers)
    return Verdict(check, True, f"{early} ({seen})", numbers)


def better_than_popularity(model: float, popularity: float) -> Verdict:
    """Recall at the cut-off nearest to 20."""
    seen = f"recall {model:.4f}, popularity {popularity:.4f}"
    numbers = {"recall": model, "popularity": popularity}
    return Verdict("better_than_popularity", model > popularity, seen, numbers)


def sound(verdicts: Sequence[Verdict]) -> bool:
    """Whether no blocking check failed."""
    blocking = {check.name for check in CHECKS if check.blocking}
    return all(verdict.passed for verdict in verdicts if verdict.check in blocking)


def check_specs(
    asset: str, names: Names, partitions: dg.PartitionsDefinition
) -> list[dg.AssetCheckSpec]:
    """The checks of an asset, as Dagster declares them."""
    return [
        dg.AssetCheckSpec(
            name=check.name,
            asset=names.key(asset),
            description=check.promise,
            blocking=check.blocking,
            partitions_def=partitions,
        )
        for check in _checks_of(asset)
    ]


def evaluations(
    asset: str,
    names: Names,
    verdicts: Mapping[str, Sequence[Verdict]],
    instance: dg.DagsterInstance,
) -> Iterator[Any]:
    """The verdict of every check on every day of a run; and the outputs that Dagster expects."""
    key, checks = names.key(asset), _checks_of(asset)
    for check in checks:
        spec = dg.AssetCheckSpec(name=check.name, asset=key)
        yield dg.Output(None, output_name=spec.get_python_identifier())
    targets = _newest_materializations(instance, key, list(verdicts)) if checks else {}
    for check in checks:
        for day, own in verdicts.items():
            yield _evaluation(check, key, day, _verdict(check, own), targets.get(day))


def _checks_of(asset: str) -> list[Check]:
    return [check for check in CHECKS if check.asset == asset]


def _newest_materializations(
    instance: dg.DagsterInstance, key: dg.AssetKey, days: list[str]
) -> dict[str, Any]:
    """What a verdict on each day is about: a day whose verdict does not name it counts as missing.

    Its class has no public name, so it is made from the form in which Dagster stores it.
    """
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=days)
    found: dict[str, Any] = {}
    cursor, more = None, True
    while more and len(found) < len(days):
        page = instance.fetch_materializations(
            wanted, limit=min(len(days), _RECORDS_AT_A_TIME), cursor=cursor
        )
        for record in page.records:  # the newest first
            stored = {
                "__class__": "AssetCheckEvaluationTargetMaterializationData",
                "storage_id": record.storage_id,
                "run_id": record.run_id,
                "timestamp": record.timestamp,
            }
            found.setdefault(str(record.partition_key), dg.deserialize_value(json.dumps(stored)))
        cursor, more = page.cursor, page.has_more
    return found


def _verdict(check: Check, verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a check on one day; a day that had too little for a model has none."""
    none = Verdict(check.name, True, _NOT_ENOUGH)
    return next((verdict for verdict in verdicts if verdict.check == check.name), none)


def _evaluation(
    check: Check, key: dg.AssetKey, day: str, verdict: Verdict, target: Any
) -> dg.AssetCheckEvaluation:
    severe = check.blocking or check.severe
    numbers = {name: float(value) for name, value in verdict.numbers.items()}
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=check.name,
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.ERROR if severe else dg.AssetCheckSeverity.WARN,
        description=f"{day}: {verdict.seen}",
        metadata={name: dg.MetadataValue.float(value) for name, value in numbers.items()},
        blocking=check.blocking,
        partition=day,
        target_materialization_data=target,
    )


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
