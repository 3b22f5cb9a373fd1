"""An asset of every day: what Dagster is told of it, and the loop over the days of a run.

Any number of days is one run: Dagster's own backfill of an asset that rests on its yesterday starts
one day each half minute.
"""

import hashlib
import math
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib.resources import files
from typing import Any

import dagster as dg

from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.defs.checks import Verdict, check_specs, evaluations, sound
from mom_pipeline.defs.partitions import offset
from mom_pipeline.defs.resources import OpenFolder
from mom_pipeline.pipeline.days import (
    CODE_VERSION,
    INPUTS,
    TOO_LITTLE,
    Days,
    NotUsable,
    TooLittleYet,
)
from mom_pipeline.warehouse.connection import Connection

OWNERS = ["team:recommendations"]
# Logs come every day, and the nightly run ingests them.
DAILY_FRESH = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=26), fail_window=timedelta(hours=50)
)
# A folder or a database on another machine may be away for a moment. What the pipeline computes is
# deterministic, and would fail again.
RETRIED = dg.RetryPolicy(max_retries=1, delay=2)
# The warehouse stays open for so long, unless days are large or the one before was not quick.
_SECONDS_PER_TURN, _QUICK_SECONDS = 1.0, 0.5
# Interactions of a day up to which BLAS has one thread: at a load of 5 on two cores the demo took
# 90 s of CPU with two threads, which wait for each other, and 52 with one.
_SMALL = 100_000
# Days of a run that share a message in its log; each message is an event that Dagster stores.
_DAYS_PER_MESSAGE = 10

# Of the assets that are tables, their columns: type in DuckDB, what it holds, and from what of
# `raw_logs` it comes.
TABLES: Mapping[str, Mapping[str, Sequence[str]]] = tomllib.loads(
    files("mom_pipeline").joinpath("defs/columns.toml").read_text("utf-8")
)

# Called for every day that an asset has done: asset and day. For a progress bar in this process.
day_done: ContextVar[Callable[[str, str], None]] = ContextVar(
    "day_done", default=lambda asset, day: None
)


@dataclass(frozen=True)
class Names:
    """The names under which the pipeline stands in a deployment, with a prefix beside others."""

    prefix: tuple[str, ...] = ()  # of asset keys, jobs, sensors, resource and pool
    group: str = ""  # of all assets; empty for those of the assets themselves
    source: tuple[str, ...] = ()  # key of somebody else's asset in place of the log files

    def key(self, asset: str) -> dg.AssetKey:
        theirs = asset == "log_files" and self.source
        return dg.AssetKey(self.source if theirs else [*self.prefix, asset])

    def of(self, name: str) -> str:
        """The name of a job, schedule, sensor or resource."""
        return "_".join([*self.prefix, name])

    @property
    def resource(self) -> str:
        return self.of("data_folder")

    @property
    def pool(self) -> str:
        """Steps take turns: a DuckDB file admits one process at a time."""
        return self.of("duckdb")


@dataclass(frozen=True)
class DayOutput:
    """What an asset made of one day.

    summary: one line for the log of the run.  metadata, verdicts: for Dagster's pages.
    The others are stored as `Days.publish` says; content: what the version of a day without arrays
    is a hash of, the summary where there is none.
    """

    summary: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    content: object = None
    arrays: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    also: Callable[[Connection], object] = lambda connection: None


def only_note(note: str, **stored: Any) -> DayOutput:
    """A day of which nothing was to be made, and why."""
    return DayOutput(note, {"note": note}, **stored)


@dataclass(frozen=True)
class DayRun:
    """What the function of an asset works with: the folder, and the days of the run."""

    folder: OpenFolder
    run_days: Sequence[date]
    config: Mapping[str, Any]
    context: dg.AssetExecutionContext
    names: Names

    @property
    def days(self) -> Days:
        return self.folder.days


Body = Callable[[DayRun, date], DayOutput]


@dataclass(frozen=True)
class DailyAsset:
    """An asset with one partition a day, of the function that makes one day."""

    body: Body
    group: str
    kinds: set[str]
    deps: tuple[str, ...]  # names of assets of the same day
    more: Mapping[str, Any]  # as `dg.asset` names it
    from_yesterday: bool = False  # whether it rests on its own day before
    horizon: bool = False  # whether it reads `deps` of the evaluation's days before, too

    @property
    def name(self) -> str:
        return self.body.__name__

    def build(
        self, names: Names, partitions: dg.DailyPartitionsDefinition, horizon_days: int
    ) -> dg.AssetsDefinition:
        """The asset as Dagster knows it."""
        key, code = names.key(self.name), self.body.__code__
        mapping = offset(-horizon_days, 0) if self.horizon else None
        deps = [dg.AssetDep(names.key(name), partition_mapping=mapping) for name in self.deps]
        if self.from_yesterday:
            deps.append(dg.AssetDep(key, partition_mapping=offset(-1, -1)))
        reference = dg.LocalFileCodeReference(
            file_path=code.co_filename, line_number=code.co_firstlineno
        )
        references = dg.CodeReferencesMetadataValue(code_references=[reference])
        checks = check_specs(self.name, key, partitions)

        @dg.asset(  # type: ignore[untyped-decorator]
            key=key,
            description=self.body.__doc__,
            group_name=names.group or self.group,
            kinds=self.kinds,
            deps=deps,
            owners=OWNERS,
            partitions_def=partitions,
            backfill_policy=dg.BackfillPolicy.single_run(),
            code_version=CODE_VERSION,
            check_specs=checks,
            metadata={**table_metadata(self.name), "dagster/code_references": references},
            pool=names.pool,
            required_resource_keys={names.resource},
            **self.more,
        )
        def materialize(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
            folder = getattr(context.resources, names.resource)
            days = [date.fromisoformat(day) for day in sorted(context.partition_keys)]
            config = context.op_execution_context.op_config or {}
            run = DayRun(folder, days, config, context, names)
            versions, verdicts = _make_days(self, run)
            joint = versions[0] if len(versions) == 1 else content_hash(*versions)
            yield dg.MaterializeResult(data_version=dg.DataVersion(joint))
            yield from evaluations(checks, verdicts, context.instance)

        return materialize


def daily_asset(
    group: str,
    kinds: set[str],
    *deps: str,
    from_yesterday: bool = False,
    horizon: bool = False,
    **more: Any,
) -> Callable[[Body], DailyAsset]:
    """Make a `DailyAsset` of the function that makes one day."""
    return lambda body: DailyAsset(body, group, kinds, deps, more, from_yesterday, horizon)


def _make_days(asset: DailyAsset, run: DayRun) -> tuple[list[str], dict[str, Sequence[Verdict]]]:
    """Make every day of the run, in order, and log it; return versions, and verdicts by day."""
    context, versions, lines = run.context, [], []
    verdicts: dict[str, Sequence[Verdict]] = {}
    for day, begin in _in_turns(run):
        try:
            output, version = _one_day(asset, run, day)
        except Exception as error:
            run.folder.end(context.run.run_id, f"{asset.name} failed: {error}")
            raise
        shown = {"version": version, "seconds": time.perf_counter() - begin}
        if day == run.run_days[-1]:
            shown |= lineage_metadata(asset.name, run.names.key("raw_logs"))
        context.add_asset_metadata({**output.metadata, **shown}, partition_key=str(day))
        versions.append(version)
        verdicts[str(day)] = output.verdicts
        lines.append(f"{day}: {output.summary}")
        if len(lines) == _DAYS_PER_MESSAGE or day == run.run_days[-1]:
            context.log.info(f"{asset.name} " + "\n".join(lines))
            lines = []
        day_done.get()(asset.name, str(day))
    if unsound := [day for day, own in verdicts.items() if not sound(own)]:
        failure = f"{asset.name} of {unsound[0]} did not pass its checks"
        run.folder.end(context.run.run_id, failure)
    return versions, verdicts


def _in_turns(run: DayRun) -> Iterator[tuple[date, float]]:
    """The days of a run, with the time of each; the warehouse is opened once a second."""
    since, quick = -math.inf, _is_small(run, run.days.latest(run.run_days[-1]))
    with ExitStack() as stack:
        for day in run.run_days:
            begin = time.perf_counter()
            if begin - since > _SECONDS_PER_TURN:
                stack.close()
                if quick:
                    stack.enter_context(run.folder.warehouse.opened())
                    since = begin
            yield day, begin
            quick = time.perf_counter() - begin < _QUICK_SECONDS


def _is_small(run: DayRun, day: date) -> bool:
    matrix = run.days.made.get(("interaction_matrix", day))
    return matrix is not None and matrix.facts["interactions"] <= _SMALL


def _one_day(asset: DailyAsset, run: DayRun, day: date) -> tuple[DayOutput, str]:
    """Make and store one day, return its version; the ledger says where data were too few."""
    try:
        with one_blas_thread() if _is_small(run, day) else nullcontext():
            output = asset.body(run, day)
    except (TooLittleData, TooLittleYet) as reason:
        output = only_note(f"too little yet: {reason}", facts={TOO_LITTLE: str(reason)})
    except NotUsable as error:
        raise NotUsable(f"{error}; materialize that first") from error
    version = content_hash(asset.name, day, output.content or output.summary)
    if asset.name not in INPUTS:  # not a part of every day
        return output, version
    made = run.days.publish(
        asset.name,
        day,
        version=version,
        arrays=output.arrays,
        facts=output.facts,
        inputs=output.inputs,
        sound=sound(output.verdicts) and TOO_LITTLE not in output.facts,
        also=output.also,
    )
    return output, made.version


def content_hash(*parts: object) -> str:
    """sha256 over the texts of some values."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue | str:
    """Rows of equal keys as a table; a dash when there are none."""
    if not rows:
        return "–"
    kinds = {bool: "bool", int: "int", float: "float"}
    columns = [
        dg.TableColumn(name, kinds.get(type(value), "string")) for name, value in rows[0].items()
    ]
    records = [dg.TableRecord(dict(row)) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))


def table_metadata(asset: str) -> dict[str, Any]:
    """What the columns of an asset hold that is a table; nothing for others."""
    columns = [dg.TableColumn(name, of[0], of[1]) for name, of in TABLES.get(asset, {}).items()]
    shown = {"dagster/table_name": asset, "dagster/column_schema": dg.TableSchema(columns)}
    return shown if columns else {}


def lineage_metadata(asset: str, logs: dg.AssetKey) -> dict[str, Any]:
    """Where the columns come from: Dagster reads it from the newest materialization."""
    lineage = {
        name: [dg.TableColumnDep(logs, source) for source in of[2:]]
        for name, of in TABLES.get(asset, {}).items()
        if of[2:]
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(lineage)} if lineage else {}
