"""The loop of every asset over the days of a run, with metadata and checks for each day."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import dagster as dg

from mom_pipeline.artifacts.day_artifacts import CODE_VERSION, StaleArtifact, TooLittleYet
from mom_pipeline.artifacts.timings import record_seconds
from mom_pipeline.core.dense import allowing_dense
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.defs.checks import Target, Verdict, check_outputs, check_specs, evaluations
from mom_pipeline.defs.freshness import WITHOUT_ARRAYS, note_finished
from mom_pipeline.defs.partitions import DAILY
from mom_pipeline.defs.tables import lineage_metadata, table_metadata

OWNERS = ["team:recommendations"]
# Assets that open the warehouse take turns: a DuckDB file admits one process at a time.
WAREHOUSE_POOL = "duckdb"
# Days of a run that share a message in its log; each message is an event that Dagster stores.
_DAYS_PER_MESSAGE = 10

if TYPE_CHECKING:
    Materialized: TypeAlias = Iterator[
        dg.MaterializeResult[Any]
        | dg.AssetMaterialization
        | dg.Output[None]
        | dg.AssetCheckEvaluation
    ]
else:  # Dagster reads the annotation of an asset, and takes this for what it materializes.
    Materialized = dg.MaterializeResult
Body = Callable[..., Materialized]


# Told of every day that an asset has done: asset and day. For a progress bar in this process.
day_done: ContextVar[Callable[[str, str], None]] = ContextVar(
    "day_done", default=lambda asset, day: None
)


@dataclass(frozen=True)
class DayOutput:
    """What an asset made of one day.

    version: content hash.  summary: one line for the log of the run.  made: false where an
    optional asset made nothing: the day is not shown as there.
    """

    version: str
    summary: str
    metadata: Mapping[str, Any]
    verdicts: Sequence[Verdict] = ()
    made: bool = True


def daily_asset(
    group: str,
    kinds: set[str],
    deps: Sequence[Any] = (),
    *,
    revision: int,
    uses_warehouse: bool = False,
    optional: bool = False,
    **more: Any,
) -> Callable[[Body], dg.AssetsDefinition]:
    """An asset with one partition a day; any number of days is one run.

    revision: of the asset's own code, raised when it makes something else of the same inputs;
    that of all arrays is `CODE_VERSION`.  optional: some days of a run may be without.  more:
    conditions and policies, as `dg.asset` names them.
    """

    def decorate(body: Body) -> dg.AssetsDefinition:
        asset: dg.AssetsDefinition = dg.asset(
            group_name=group,
            kinds=kinds,
            deps=list(deps),
            owners=OWNERS,
            partitions_def=DAILY,
            backfill_policy=dg.BackfillPolicy.single_run(),
            code_version=f"{CODE_VERSION}.{revision}",
            check_specs=check_specs(body.__name__),
            metadata=table_metadata(body.__name__),
            pool=WAREHOUSE_POOL if uses_warehouse else None,
            output_required=not optional,
            **more,
        )(body)
        return asset

    return decorate


def for_each_day(
    context: dg.AssetExecutionContext, compute: Callable[[date], DayOutput]
) -> Materialized:
    """Compute every day of the run, in order; return what Dagster is to be told of them."""
    outputs: dict[str, DayOutput] = {}
    seconds: dict[str, float] = {}
    lines: list[str] = []
    name = context.asset_key.to_user_string()
    folder = context.resources.data_folder
    dense_bytes = folder.state.settings.rebuild.dense_bytes
    with folder.warehouse.kept_open(), allowing_dense(dense_bytes):
        for key in sorted(context.partition_keys):
            begin = time.perf_counter()
            day = date.fromisoformat(key)
            try:
                output = compute(day)
            except (TooLittleData, TooLittleYet) as reason:
                output = _too_little(context, name, day, str(reason))
            except StaleArtifact as error:
                raise StaleArtifact(f"{error}; materialize that first") from error
            seconds[key] = time.perf_counter() - begin
            shown = {**output.metadata, "version": output.version, "seconds": seconds[key]}
            outputs[key] = replace(output, metadata=shown)
            lines.append(f"{key}: {output.summary}")
            if len(lines) == _DAYS_PER_MESSAGE:
                context.log.info(f"{name} " + "\n".join(lines))
                lines = []
            day_done.get()(name, key)
    if lines:
        context.log.info(f"{name} " + "\n".join(lines))
    if name in WITHOUT_ARRAYS:
        days = [date.fromisoformat(key) for key in outputs]
        note_finished(folder.warehouse, folder.state, name, days)
    record_seconds(Path(folder.data_dir), name, seconds)
    return _materialized(context, outputs)


def _too_little(context: dg.AssetExecutionContext, asset: str, day: date, reason: str) -> DayOutput:
    """A day without a model is a day too: its artifact says why, and the next one goes on."""
    said = f"too little yet: {reason.removeprefix('too little yet: ')}"
    context.resources.data_folder.state.write_too_little(asset, day, said)
    return DayOutput(content_hash(asset, day, said), said, {"note": said})


def _materialized(
    context: dg.AssetExecutionContext, outputs: Mapping[str, DayOutput]
) -> Materialized:
    """Yield the days, and then the verdicts on them.

    The data version of one day is the hash of its content; that of several days, which Dagster
    keeps only once for all of them, is the hash of theirs.
    """
    asset = context.asset_key.to_user_string()
    if all(output.made for output in outputs.values()):
        for key, output in outputs.items():
            context.add_asset_metadata(output.metadata, partition_key=key)
        context.add_asset_metadata(lineage_metadata(asset), partition_key=max(outputs))
        versions = [output.version for output in outputs.values()]
        joint = versions[0] if len(versions) == 1 else content_hash(*versions)
        yield dg.MaterializeResult(data_version=dg.DataVersion(joint))
    else:
        yield from _some_days(asset, outputs)
    yield from check_outputs(asset)
    verdicts = {key: output.verdicts for key, output in outputs.items()}
    yield from evaluations(asset, verdicts, _stored(context, set(outputs)))


def _some_days(asset: str, outputs: Mapping[str, DayOutput]) -> Iterator[dg.AssetMaterialization]:
    """The days of which something was made; an output would stand for all days of the run."""
    for key, output in outputs.items():
        if output.made:
            tags = {"dagster/data_version": output.version}
            yield dg.AssetMaterialization(asset, partition=key, metadata=output.metadata, tags=tags)


def _stored(context: dg.AssetExecutionContext, days: set[str]) -> dict[str, Target]:
    """Return the materializations of some days, as Dagster has stored them."""
    ids = context.instance.get_latest_storage_id_by_partition(
        context.asset_key, dg.DagsterEventType.ASSET_MATERIALIZATION, days
    )
    return {
        day: Target(storage_id=i, run_id=context.run.run_id, timestamp=time.time())
        for day, i in ids.items()
    }


def content_hash(*parts: object) -> str:
    """sha256 over the texts of some values."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
