"""Group `serving`: the gate before a model is in use, its lists, and where else they go."""

from datetime import date

import dagster as dg

from mom_pipeline.catalogue import shortened
from mom_pipeline.core.errors import MomError
from mom_pipeline.defs.daily import (
    DAILY_FRESH,
    OWNERS,
    RETRIED,
    DayOutput,
    DayRun,
    Names,
    daily_asset,
    only_note,
    table,
)
from mom_pipeline.exports.tables import Output, write_output
from mom_pipeline.logs.decisions import unusual_days
from mom_pipeline.pipeline.days import NotUsable
from mom_pipeline.serving.gate import Gate, evaluated_day
from mom_pipeline.serving.lists import renew_lists
from mom_pipeline.serving.registry import NoChampion
from mom_pipeline.warehouse.lists import listed_items, most_listed
from mom_pipeline.warehouse.matrix import delivered_pairs, ids_by_position

_SHOWN_ITEMS = 10


def model_in_use(names: Names) -> dg.AssetSpec:
    """Where the graph ends: a person may put another version in use; the next run notes it."""
    return dg.AssetSpec(
        names.key("model_in_use"),
        deps=[names.key("promotion")],
        group_name=names.group or "serving",
        kinds={"numpy"},
        owners=OWNERS,
        freshness_policy=DAILY_FRESH,
        description="The version that commands, Python, HTTP, table and export answer from.",
    )


@daily_asset("serving", {"numpy"}, "evaluation_metrics")
def promotion(run: DayRun, day: date) -> DayOutput:
    """The model of the day as a version in `models`; in use if it passes the gate.

    The first model is in use at once. Later, a model of the same settings and code passes with
    a new day of data, unless that day was excluded, a file of it refused or a check failed. Other
    settings or code are compared with the model in use on the same users and days, days that
    neither has learnt from: the paired bootstrap interval of the MAP must exclude a loss beyond
    `promotion.max_loss`. What a person put in use stays until a person lifts that.

    The newest usual day of a run goes through the gate, or the one before it where a check failed;
    the days before are versions, as many as are kept.
    """
    with run.folder.warehouse.reading() as connection:
        unusual = unusual_days(connection, run.folder.settings)
    usual = [d for d in run.run_days if d not in unusual]
    keep = run.folder.settings.promotion.keep_versions
    if day in unusual:
        output = _no_version(unusual[day])
    elif keep and day not in usual[-keep:]:
        output = _no_version("older than those that promotion.keep_versions keeps")
    elif day != usual[-1]:
        output = _stored(run, day)
    else:
        output = _through_gate(run, usual)
    if day == run.run_days[-1]:
        _note_model_in_use(run)
    return output


def _no_version(reason: str) -> DayOutput:
    note = f"no version: {reason}"
    return DayOutput(note, {"note": note, "decision": reason}, facts={"decision": reason})


def _stored(run: DayRun, day: date) -> DayOutput:
    """The model of a day as a version, whatever the gate would say."""
    try:
        version = _gate(run, day).store()
    except NotUsable as reason:
        return _no_version(str(reason))
    note = "a version; only the newest usual day of a run goes through the gate"
    return DayOutput(note, {"model_version": version, "note": note}, content=version)


def _through_gate(run: DayRun, usual: list[date]) -> DayOutput:
    """Let the newest usual day that is sound go through the gate; where none is, raise why."""
    done, failures = None, list[NotUsable]()
    for day in reversed(usual):
        try:
            done = _gate(run, day).promote()
            break
        except NotUsable as reason:
            failures.append(reason)
    if done is None:
        raise failures[0]
    decision = done.decision
    compared = {"difference": decision.difference, "low": decision.low, "high": decision.high}
    return DayOutput(
        f"{done.version} {decision.words}",
        {
            "model_version": done.version,
            "decision": decision.words,
            "promoted": decision.passed,
            "champion": done.champion or "none",
            **{f"map_{name}": value for name, value in compared.items() if value is not None},
            **done.metrics,
            "versions_removed": len(done.removed),
        },
        content=(done.version, done.champion),
        facts={"decision": decision.words},
    )


def _gate(run: DayRun, day: date) -> Gate:
    folder = run.folder
    with folder.warehouse.reading() as connection:
        items, users = (ids_by_position(connection, kind) for kind in ("item", "user"))
    later = delivered_pairs(folder.warehouse, evaluated_day(run.days, day), day, folder.array)
    return Gate(run.days, folder.registry, day, items, users, later, folder)


def _note_model_in_use(run: DayRun) -> None:
    """Tell Dagster of the version in use, since when and why."""
    if history := run.folder.registry.history():
        change = history[-1]
        shown = {
            "model_version": change.version,
            "since": change.time,
            "kind": change.kind,
            "by": change.by,
            "reason": change.reason,
        }
        key, tags = run.names.key("model_in_use"), {"dagster/data_version": change.version}
        run.context.log_event(dg.AssetMaterialization(key, metadata=shown, tags=tags))


@daily_asset("serving", {"duckdb", "table"}, "promotion", freshness_policy=DAILY_FRESH)
def recommendations(run: DayRun, day: date) -> DayOutput:
    """The best items of every user, each with its reason: those of the model in use.

    One product: this table, `exports/recommendations.parquet`, HTTP, Python, report and explorer
    give the same lists. Written for the last day of a run.
    """
    if day != run.run_days[-1]:
        return only_note("the lists are those of the newest day of the run")
    folder, catalogue = run.folder, run.folder.catalogue
    try:
        renewed = renew_lists(folder.settings, folder.warehouse, folder)
    except NoChampion as reason:
        return only_note(str(reason))
    except MomError as error:
        raise MomError(f"the model in use cannot answer: {error}") from error
    with folder.warehouse.reading() as connection:
        listed, favourites = listed_items(connection), most_listed(connection, _SHOWN_ITEMS)
    for row in favourites:
        row["name"] = shortened(catalogue.name(row["item"])) if catalogue.items else ""
    return DayOutput(
        f"{renewed.rows} rows for {renewed.users} users",
        {
            "model_version": renewed.model,
            "rows": renewed.rows,
            "users": renewed.users,
            "coverage": listed / max(renewed.items, 1),
            "most_listed": table(favourites),
            "export": dg.MetadataValue.path(renewed.export.resolve()),
        },
        content=(renewed.model, renewed.rows),
        facts={"model": renewed.model},
    )


def output_asset(
    names: Names, partitions: dg.DailyPartitionsDefinition, output: Output
) -> dg.AssetsDefinition:
    """The asset of an output: its key is the name of the table, behind the prefix."""

    @dg.asset(
        key=dg.AssetKey([*names.prefix, *output.name.split(".")]),
        description=f"The {output.what} of everybody, of the model in use, in {output.shown}.",
        group_name=names.group or "serving",
        kinds={output.kind},
        deps=[names.key("recommendations")],
        owners=OWNERS,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        metadata={"dagster/table_name": output.name},
        pool=names.pool,
        required_resource_keys={names.resource},
        retry_policy=RETRIED,
    )
    def write(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        folder = getattr(context.resources, names.resource)
        try:
            done = write_output(folder.settings, output)
        except NoChampion as reason:
            return dg.MaterializeResult(metadata={"note": str(reason)})
        return dg.MaterializeResult(
            metadata={
                "model_version": done.model,
                "day": done.day,
                "people": done.people,
                "dagster/row_count": done.rows,
            },
            data_version=dg.DataVersion(done.model),
        )

    return write
