"""Asset checks: what each promises, and the functions that judge one day.

A check runs inside its asset, on every day of the run, so that a blocking one stops the days'
later assets. Where there is too little to judge by, a check passes and says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Self

import dagster as dg
import numpy as np

from mom_pipeline.core.evaluation.stability import MIN_AGREEMENT
from mom_pipeline.core.types import Array
from mom_pipeline.logs.ledger import DeliveredDay
from mom_pipeline.settings import Settings

_WHITENING_TOLERANCE = 1e-4
_SUM_TOLERANCE = 1e-6
_USUAL_VOLUME = (0.5, 2.0)
_POPULARITY_DRIFT = 0.25
_NOT_ENOUGH = "not enough data"
_SHOWN_COMPONENTS = 10
# Dagster gives no more in one answer.
_RECORDS_AT_A_TIME = 1_000


# What the checks of each asset promise.
CHECKS: Mapping[str, Mapping[str, str]] = {
    "raw_logs": {
        "rows_accounted": "Lines = header + accepted + rejected, in file, ledger and tables alike.",
        "files_ingested": "No file of the day was refused; `mom-pipeline status` says why one was.",
        "usual_volume": "The rows are between half and twice the mean of the trailing week.",
        "fresh_logs": "The day itself has log files.",
    },
    "interaction_matrix": {
        "usual_day": "The day is like the days before it, and its users take what goes with what "
        "they took. A day that is not is excluded, unless a person accepted it.",
        "steady_popularity": "The popularity of items moved by less than 0.25 (total variation) "
        "since the day before.",
    },
    "m2_statistics": {
        "finite_moments": "No sum is infinite or NaN.",
        "enough_users": "N >= K^2 users, which the method asks for.",
        "captured": "The anchor's basis holds enough of the second moment, or the day was rebuilt.",
    },
    "whitening_matrix": {
        "whitens": "||W.T M2 W - I|| <= 0.0001, M2 from the rows themselves.",
    },
    "whitened_tensor": {"finite_tensor": "No entry is infinite or NaN."},
    "decomposition": {
        "distributions": "Pi and every column of O are distributions.",
        "split_half": "Two halves of the users agree on every component, by 0.5 or more.",
    },
    "user_personalization": {"posteriors": "Every user's posterior is a distribution."},
    "groups": {
        "no_group_vanished": "The people of every group are still together, or so many parted "
        "before.",
        "no_group_split": "No group became two, or as many people did before.",
        "no_group_doubled": "No group has twice the share of all people, or one of as many people "
        "had before.",
    },
    "evaluation_metrics": {
        "better_than_popularity": "Recall@20 of the model is above that of popularity.",
    },
}
# Nothing is built on a day that breaks one of these.
BLOCKING = {
    *("rows_accounted", "finite_moments", "whitens"),
    *("finite_tensor", "distributions", "posteriors"),
}
# A person has to look at these.
SEVERE = BLOCKING | {"files_ingested", "usual_day"}


@dataclass(frozen=True)
class Verdict:
    """How a check ended on one day: what it saw in words, and in numbers to be plotted."""

    check: str
    passed: bool
    seen: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def unless(self, early: str) -> Self:
        """The same, but passed where there is a reason why it is too early to judge."""
        if self.passed or not early:
            return self
        return replace(self, passed=True, seen=f"{early} ({self.seen})")


def rows_accounted(delivered: DeliveredDay) -> Verdict:
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
    seen = f"refused: {', '.join(refused)}; see `mom-pipeline status`" if refused else "all were"
    return Verdict("files_ingested", not refused, seen, {"refused": len(refused)})


def usual_volume(rows: int, trailing: Sequence[int]) -> Verdict:
    if not trailing:
        seen = f"{rows} rows; no earlier day to compare with"
        return Verdict("usual_volume", True, seen, {"rows": rows})
    mean, (low, high) = sum(trailing) / len(trailing), _USUAL_VOLUME
    seen = f"{rows} rows; trailing week: {mean:.0f} a day"
    numbers = {"rows": rows, "trailing_mean": mean}
    return Verdict("usual_volume", low * mean <= rows <= high * mean, seen, numbers)


def fresh_logs(day: date, newest: date | None) -> Verdict:
    seen = f"newest delivery up to {day}: {newest or 'none'}"
    numbers = {"age": (day - newest).days} if newest else {}
    return Verdict("fresh_logs", newest == day, seen, numbers)


def usual_day(unusual: str, accepted: bool, numbers: Mapping[str, float]) -> Verdict:
    if accepted:
        return Verdict("usual_day", True, f"accepted by a person: {unusual}", numbers)
    seen = f"excluded: {unusual}" if unusual else "as usual"
    return Verdict("usual_day", not unusual, seen, numbers)


def steady_popularity(moved: float) -> Verdict:
    steady = moved <= _POPULARITY_DRIFT
    return Verdict("steady_popularity", steady, f"moved by {moved:.3f}", {"moved": moved})


def enough_users(n_users: int, n_components: int) -> Verdict:
    enough, seen = n_users >= n_components**2, f"{n_users} users, K^2 = {n_components**2}"
    return Verdict("enough_users", enough, seen, {"users": n_users})


def captured(share: float, threshold: float, rebuilt: str) -> Verdict:
    seen = f"rebuilt: {rebuilt}" if rebuilt else f"{share:.4f} of the second moment"
    return Verdict("captured", bool(rebuilt) or share >= threshold, seen, {"share": share})


def whitens(error: float) -> Verdict:
    passed, seen = error <= _WHITENING_TOLERANCE, f"||W.T M2 W - I|| = {error:.2e}"
    return Verdict("whitens", passed, seen, {"error": error})


def split_half(agreement: Array, weights: Array) -> Verdict:
    weak = np.flatnonzero(agreement < MIN_AGREEMENT)
    seen = f"lowest agreement {agreement.min():.2f}"
    if len(weak):
        named = ", ".join(str(k + 1) for k in weak[:_SHOWN_COMPONENTS])
        more = f" and {len(weak) - _SHOWN_COMPONENTS} more" if len(weak) > _SHOWN_COMPONENTS else ""
        share = f"{weights[weak].sum():.1%} of pi"
        seen += f"; below {MIN_AGREEMENT}: components {named}{more}, {share}"
    numbers = {"lowest_agreement": float(agreement.min()), "weak_components": len(weak)}
    return Verdict("split_half", len(weak) == 0, seen, numbers)


def unchanged(check: str, changes: Sequence[str], p_value: float) -> Verdict:
    """changes: alarms in words.  p_value: the smallest one, 1 without any."""
    seen = "; ".join(changes) or "as the day before"
    return Verdict(check, not changes, seen, {"changes": len(changes), "p_value": p_value})


def better_than_popularity(model: float, popularity: float) -> Verdict:
    seen = f"recall {model:.4f}, popularity {popularity:.4f}"
    numbers = {"recall": model, "popularity": popularity}
    return Verdict("better_than_popularity", model > popularity, seen, numbers)


def sound(verdicts: Sequence[Verdict]) -> bool:
    """Whether no blocking check failed."""
    return all(verdict.passed or verdict.check not in BLOCKING for verdict in verdicts)


def too_early(settings: Settings, day: date) -> str:
    """Why the logs are too young for a verdict on the model of a day; "" when they are not.

    As for the choice of settings and the backtest, it takes `evaluation.horizon_days` days before.
    """
    number = (day - settings.first_and_last_day()[0]).days + 1
    needed = settings.evaluation.horizon_days + 1
    if number >= needed:
        return ""
    return f"{_NOT_ENOUGH}: day {number} of the logs, judged from day {needed} on"


def check_specs(
    asset: str, key: dg.AssetKey, partitions: dg.PartitionsDefinition
) -> list[dg.AssetCheckSpec]:
    """The checks of an asset, as Dagster declares them."""
    return [
        dg.AssetCheckSpec(
            name=name,
            asset=key,
            description=promise,
            blocking=name in BLOCKING,
            partitions_def=partitions,
        )
        for name, promise in CHECKS.get(asset, {}).items()
    ]


def evaluations(
    specs: Sequence[dg.AssetCheckSpec],
    verdicts: Mapping[str, Sequence[Verdict]],
    instance: dg.DagsterInstance,
) -> Iterator[Any]:
    """The verdict of every check on every day of a run; and the outputs that Dagster expects."""
    for spec in specs:
        yield dg.Output(None, output_name=spec.get_python_identifier())
    severity = dg.AssetCheckSeverity
    targets = _newest_materializations(instance, specs[0].asset_key, [*verdicts]) if specs else {}
    for spec in specs:
        for day, own in verdicts.items():
            # A day that had too little for a model has no verdict.
            none = Verdict(spec.name, True, _NOT_ENOUGH)
            verdict = next((one for one in own if one.check == spec.name), none)
            yield dg.AssetCheckEvaluation(
                asset_key=spec.asset_key,
                check_name=spec.name,
                passed=verdict.passed,
                severity=severity.ERROR if spec.name in SEVERE else severity.WARN,
                description=f"{day}: {verdict.seen}",
                metadata={name: float(value) for name, value in verdict.numbers.items()},
                blocking=spec.blocking,
                partition=day,
                target_materialization_data=targets.get(day),
            )


def _newest_materializations(
    instance: dg.DagsterInstance, key: dg.AssetKey, days: list[str]
) -> dict[str, Any]:
    """What verdicts are about, by day, from Dagster's stored form: its class is not public."""
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=days)
    limit, found = min(len(days), _RECORDS_AT_A_TIME), dict[str, Any]()
    cursor, more = None, True
    while more and len(found) < len(days):
        page = instance.fetch_materializations(wanted, limit=limit, cursor=cursor)
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


def finite(check: str, *arrays: Array) -> Verdict:
    bad = sum(int((~np.isfinite(array)).sum()) for array in arrays)
    return Verdict(check, bad == 0, f"{bad} non-finite entries", {"non_finite": bad})


def distributions(check: str, **columns: Array) -> Verdict:
    """Nothing is negative and every column sums to 1; NaN and infinity fail a comparison."""
    wrong = [
        name
        for name, array in columns.items()
        if not (
            array.min() >= 0
            and (np.abs(array.sum(axis=0, dtype=np.float64) - 1) <= _SUM_TOLERANCE).all()
        )
    ]
    seen = f"not distributions: {', '.join(wrong)}" if wrong else "all are"
    return Verdict(check, not wrong, seen, {"wrong": len(wrong)})
