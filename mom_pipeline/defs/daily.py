"""An asset of every day: what Dagster is told of it, and the loop over the days of a run.

The function of an asset makes one day. Any number of days is one run: Dagster's own backfill of an
asset that rests on its yesterday starts one day each half minute.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import dagster as dg

from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.defs.checks import Verdict, check_specs, evaluations, sound
from mom_pipeline.defs.names import Names
from mom_pipeline.defs.partitions import offset
from mom_pipeline.defs.resources import OpenFolder
from mom_pipeline.defs.tables import lineage_metadata, table_metadata
from mom_pipeline.pipeline.days import CODE_VERSION, TOO_LITTLE, Days, NotUsable, TooLittleYet

OWNERS = ["team:recommendations"]
# A day that took so long is no small piece of work, for which the warehouse stays open.
_QUICK_SECONDS = 0.5
# Days of a run that share a message in its log; each message is an event that Dagster stores.
_DAYS_PER_MESSAGE = 10
_SECONDS_PER_TURN = 1.0

# Called for every day that an asset has done: asset and day. For a progress bar in this process.
day_done: ContextVar[Callable[[str, str], None]] = ContextVar(
    "day_done", default=lambda asset, day: None
)


@dataclass(frozen=True)
class DayOutput:
    """What an asset made of one day.

    version: of the content, as in the ledger.  summary: one line for the log of the run.
    """

    version: str
    summary: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()


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
Once = Callable[[DayRun], None]


@dataclass(frozen=True)
class DailyAsset:
    """An asset with one partition a day.

    deps: names of assets of the same day.  from_yesterday: whether it rests on its own day before.
    horizon: whether it reads `deps` of the evaluation's days before, too.
    config: fields of its run config.  before, after: what a run does once, around all of its days.
    more: as `dg.asset` names it.
    """

    body: Body
    group: str
    kinds: set[str]
    deps: tuple[str, ...] = ()
    from_yesterday: bool = False
    horizon: bool = False
    config: Mapping[str, dg.Field] = field(default_factory=dict)
    before: Once | None = None
    after: Once | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.body.__name__


def daily_asset(
    group: str, kinds: set[str], *deps: str, **how: Any
) -> Callable[[Body], DailyAsset]:
    """Make a `DailyAsset` of the function that makes one day."""
    own = {name: how.pop(name) for name in list(how) if name in DailyAsset.__dataclass_fields__}
    return lambda body: DailyAsset(body, group, kinds, deps, **own, more=how)


def build_asset(
    asset: DailyAsset, names: Names, partitions: dg.DailyPartitionsDefinition, horizon_days: int
) -> dg.AssetsDefinition:
    """The asset as Dagster knows it."""
    mapping = offset(-horizon_days, 0) if asset.horizon else None
    deps = [dg.AssetDep(names.key(name), partition_mapping=mapping) for name in asset.deps]
    if asset.from_yesterday:
        deps.append(dg.AssetDep(names.key(asset.name), partition_mapping=offset(-1, -1)))
    code = asset.body.__code__
    reference = dg.LocalFileCodeReference(
        file_path=code.co_filename, line_number=code.co_firstlineno
    )
    metadata = {
        **table_metadata(asset.name),
        "dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[reference]),
    }

    @dg.asset(  # type: ignore[untyped-decorator]
        key=names.key(asset.name),
        description=asset.body.__doc__,
        group_name=names.group or asset.group,
        kinds=asset.kinds,
        deps=deps,
        owners=OWNERS,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        code_version=CODE_VERSION,
        check_specs=check_specs(asset.name, names, partitions),
        metadata=metadata,
        pool=names.pool,
        required_resource_keys={names.resource},
        config_schema=dict(asset.config),
        **asset.more,
    )
    def materialize(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
        yield from _materialize(asset, context, names)

    return materialize


def _materialize(
    asset: DailyAsset, context: dg.AssetExecutionContext, names: Names
) -> Iterator[Any]:
    """Compute every day of the run, in order; yield what Dagster is to be told of them."""
    folder = getattr(context.resources, names.resource).opened
    keys = sorted(context.partition_keys)
    config = context.op_execution_context.op_config or {}
    run = DayRun(folder, [date.fromisoformat(key) for key in keys], config, context, names)
    try:
        if asset.before:
            asset.before(run)
        outputs = _outputs(asset, run)
        if asset.after:
            asset.after(run)
    except Exception as error:
        folder.note_failure(context.run_id, f"{asset.name} failed: {error}")
        raise
    if unsound := [key for key, output in outputs.items() if not sound(output.verdicts)]:
        failure = f"{asset.name} of {unsound[0]} did not pass its checks"
        folder.note_failure(context.run_id, failure)
    context.add_asset_metadata(lineage_metadata(asset.name, names), partition_key=keys[-1])
    versions = [output.version for output in outputs.values()]
    joint = versions[0] if len(versions) == 1 else content_hash(*versions)
    yield dg.MaterializeResult(data_version=dg.DataVersion(joint))
    verdicts = {key: output.verdicts for key, output in outputs.items()}
    yield from evaluations(asset.name, names, verdicts, context.instance)


def _outputs(asset: DailyAsset, run: DayRun) -> dict[str, DayOutput]:
    """The days of a run, by their partition."""
    outputs: dict[str, DayOutput] = {}
    lines: list[str] = []
    for day, begin in _in_turns(run):
        output = _one_day(asset, run, day)
        shown = {"version": output.version, "seconds": time.perf_counter() - begin}
        run.context.add_asset_metadata({**output.metadata, **shown}, partition_key=str(day))
        outputs[str(day)] = output
        lines.append(f"{day}: {output.summary}")
        if len(lines) == _DAYS_PER_MESSAGE or day == run.run_days[-1]:
            run.context.log.info(f"{asset.name} " + "\n".join(lines))
            lines = []
        day_done.get()(asset.name, str(day))
    return outputs


def _in_turns(run: DayRun) -> Iterator[tuple[date, float]]:
    """The days of a run, each with the time at which it begins.

    The warehouse stays open from one quick day to the next, a second at a time: opening it takes
    as long as a small day, and other processes wait for it.
    """
    since = begin = -math.inf
    with ExitStack() as stack:
        for day in run.run_days:
            before, begin = begin, time.perf_counter()
            if begin - since > _SECONDS_PER_TURN:
                stack.close()
                if begin - before < _QUICK_SECONDS:
                    stack.enter_context(run.folder.warehouse.kept_open())
                    since = begin
            yield day, begin


def _one_day(asset: DailyAsset, run: DayRun, day: date) -> DayOutput:
    """A day without enough data is a day too: the ledger says why, and the next one goes on."""
    try:
        return asset.body(run, day)
    except (TooLittleData, TooLittleYet) as reason:
        said = str(reason)
        facts, version = {TOO_LITTLE: said}, content_hash(asset.name, day, said)
        run.days.publish(asset.name, day, version=version, facts=facts, sound=False)
        return DayOutput(version, f"too little yet: {said}", {"note": f"too little yet: {said}"})
    except NotUsable as error:
        raise NotUsable(f"{error}; materialize that first") from error


def content_hash(*parts: object) -> str:
    """sha256 over the texts of some values."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
