"""Group `serving`: the gate before a model is in use, and the lists of the model in use."""

from datetime import date
from typing import Any

import dagster as dg

from mom_pipeline.catalogue import shortened
from mom_pipeline.core.errors import MomError
from mom_pipeline.defs import metadata
from mom_pipeline.defs.daily import OWNERS, DayOutput, DayRun, content_hash, daily_asset
from mom_pipeline.defs.names import Names
from mom_pipeline.defs.policies import DAILY_FRESH
from mom_pipeline.logs.gate import excluded_days
from mom_pipeline.pipeline.days import NotUsable
from mom_pipeline.serving.gate import Gate, Promoted, evaluated_day
from mom_pipeline.serving.lists import renew_lists
from mom_pipeline.serving.registry import NoChampion
from mom_pipeline.warehouse.dictionaries import ids_by_position
from mom_pipeline.warehouse.lists import listed_items, most_listed
from mom_pipeline.warehouse.matrix import delivered_pairs

_SHOWN_ITEMS = 10
_VERSION = "dagster/data_version"


def log_files(names: Names) -> dg.AssetSpec:
    """Where the graph begins: files are delivered, no run makes them."""
    return dg.AssetSpec(
        names.key("log_files"),
        group_name=names.group or "logs",
        kinds={"csv", "file"},
        owners=OWNERS,
        description="The files of the logs folder, each named after its delivery day.",
    )


def model_in_use(names: Names) -> dg.AssetSpec:
    """Where it ends: a person may put another version in use; the next run notes which it is."""
    return dg.AssetSpec(
        names.key("model_in_use"),
        deps=[names.key("promotion")],
        group_name=names.group or "serving",
        kinds={"numpy"},
        owners=OWNERS,
        freshness_policy=DAILY_FRESH,
        description="The version that commands, Python, HTTP, table and export answer from.",
    )


def _note_model_in_use(run: DayRun) -> None:
    """Tell Dagster of the version in use, since when and why."""
    history = run.folder.registry.history()
    if history:
        change = history[-1]
        shown = {
            "model_version": change.version,
            "since": change.time,
            "kind": change.kind,
            "by": change.by,
            "reason": change.reason,
        }
        key, tags = run.names.key("model_in_use"), {_VERSION: change.version}
        run.context.log_event(dg.AssetMaterialization(key, metadata=shown, tags=tags))


@daily_asset("serving", {"numpy"}, "evaluation_metrics", after=_note_model_in_use)
def promotion(run: DayRun, day: date) -> DayOutput:
    """The model of the day as a version in `models`; in use if it passes the gate.

    The first model is in use at once. Later, a model of the same settings and code passes with
    a new day of data, unless that day was excluded or a check failed. Other settings or code are
    compared with the model in use on the same users and days, days that neither has learnt from:
    the paired bootstrap interval of the MAP must exclude a loss beyond `promotion.max_loss`. What
    a person put in use stays until a person lifts that.

    The newest usual day of a run goes through the gate, or the one before it where a check failed;
    the days before are versions, as many as are kept.
    """
    with run.folder.warehouse.reading() as connection:
        excluded = excluded_days(connection)
    if day in excluded:
        return _no_version(run, day, f"excluded: {excluded[day]}")
    usual = [d for d in run.run_days if d not in excluded]
    keep = run.folder.settings.promotion.keep_versions
    if keep and day not in usual[-keep:]:
        return _no_version(run, day, "older than those that promotion.keep_versions keeps")
    if day != usual[-1]:
        try:
            version = _gate(run, day).store()
        except NotUsable as reason:
            return _no_version(run, day, str(reason))
        run.days.publish("promotion", day, version=version)
        note = "a version; only the newest usual day of a run goes through the gate"
        return DayOutput(version, note, {"model_version": version, "note": note})
    done = _through_gate(run, usual)
    version = content_hash(done.version, done.champion)
    run.days.publish("promotion", day, version=version, facts={"decision": done.decision.words})
    return DayOutput(version, f"{done.version} {done.decision.words}", _shown(done))


def _through_gate(run: DayRun, usual: list[date]) -> Promoted:
    """Let the newest usual day that is sound go through the gate."""
    failure: NotUsable | None = None
    for day in reversed(usual):
        try:
            return _gate(run, day).promote()
        except NotUsable as reason:
            failure = failure or reason
    raise failure or NotUsable("no day of the run is usual")


def _gate(run: DayRun, day: date) -> Gate:
    folder = run.folder
    with folder.warehouse.reading() as connection:
        items, users = (ids_by_position(connection, kind) for kind in ("item", "user"))
    later = delivered_pairs(folder.warehouse, evaluated_day(run.days, day), day, folder.array)
    return Gate(run.days, folder.registry, day, items, users, later, folder)


def _no_version(run: DayRun, day: date, reason: str) -> DayOutput:
    note = f"no version: {reason}"
    version = content_hash(day, note)
    run.days.publish("promotion", day, version=version, facts={"decision": reason})
    return DayOutput(version, note, {"note": note, "decision": reason})


def _shown(done: Promoted) -> dict[str, Any]:
    decision = done.decision
    compared = {"difference": decision.difference, "low": decision.low, "high": decision.high}
    return {
        "model_version": done.version,
        "decision": decision.words,
        "promoted": decision.passed,
        "champion": done.champion or "none",
        **{f"map_{name}": value for name, value in compared.items() if value is not None},
        **done.metrics,
        "versions_removed": len(done.removed),
    }


@daily_asset("serving", {"duckdb", "table"}, "promotion", freshness_policy=DAILY_FRESH)
def recommendations(run: DayRun, day: date) -> DayOutput:
    """The best items of every user, each with its reason: those of the model in use.

    One product: this table, `exports/recommendations.parquet`, HTTP, Python, report and explorer
    give the same lists. Written for the last day of a run.
    """
    if day != run.run_days[-1]:
        return _no_lists(run, day, "the lists are those of the newest day of the run")
    try:
        renewed = renew_lists(run.folder.settings, run.folder.warehouse, run.folder)
    except NoChampion as reason:
        return _no_lists(run, day, str(reason))
    except MomError as error:
        raise MomError(f"the model in use cannot answer: {error}") from error
    catalogue = run.folder.catalogue
    with run.folder.warehouse.reading() as connection:
        listed, favourites = listed_items(connection), most_listed(connection, _SHOWN_ITEMS)
    for row in favourites:
        row["name"] = shortened(catalogue.name(row["item"])) if catalogue.items else ""
    version = content_hash(renewed.model, renewed.rows)
    run.days.publish("recommendations", day, version=version, facts={"model": renewed.model})
    shown = {
        "model_version": renewed.model,
        "rows": renewed.rows,
        "users": renewed.users,
        "coverage": listed / max(renewed.items, 1),
        "most_listed": metadata.table(favourites),
        "export": dg.MetadataValue.path(renewed.export.resolve()),
    }
    return DayOutput(version, f"{renewed.rows} rows for {renewed.users} users", shown)


def _no_lists(run: DayRun, day: date, note: str) -> DayOutput:
    version = content_hash(day, note)
    run.days.publish("recommendations", day, version=version)
    return DayOutput(version, note, {"note": note})
