"""`build_defs`: the pipeline as Dagster definitions, alone or merged with somebody's own."""

import os
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from mom_pipeline.datasets.source import Source
from mom_pipeline.defs.alerts import alert_sensors
from mom_pipeline.defs.assets import evaluation, groups, logs, model, serving
from mom_pipeline.defs.automation import jobs_of, log_file_sensor, schedules_of
from mom_pipeline.defs.daily import DailyAsset, Names
from mom_pipeline.defs.partitions import daily_partitions
from mom_pipeline.defs.resources import data_folder
from mom_pipeline.exports.tables import Output
from mom_pipeline.settings import Settings, load_settings

# The assets of every day, in their order.
ASSETS: tuple[DailyAsset, ...] = (
    logs.raw_logs,
    logs.interaction_matrix,
    model.chosen_settings,
    model.m2_statistics,
    model.whitening_matrix,
    model.whitened_tensor,
    model.decomposition,
    model.user_personalization,
    groups.groups,
    evaluation.evaluation_metrics,
    serving.promotion,
    serving.recommendations,
    evaluation.report,
)


def build_defs(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    key_prefix: str | Sequence[str] = (),
    group: str = "",
    executor: dg.ExecutorDefinition | None = None,
    schedule: str | None = "0 3 * * *",
    source: Source | None = None,
    outputs: Sequence[Output] = (),
) -> dg.Definitions:
    """The pipeline over one data folder, ready for `Definitions.merge` with others.

    data_dir: the data folder; None for MOM_DATA_DIR, or `data`. All steps need its disk.
    key_prefix: of asset keys and, joined by "_", of jobs, schedules, sensors, resource and pool.
    group: one group for all assets; "" for groups of their own.
    executor: None leaves it to whoever merges, but for our jobs, which then are one process each:
    the chain is linear, and a step costs half a second there against five in its own.
    schedule: cron of the nightly update; None for no schedules.
    source: where the rows of a day are read; None for files that are put into `logs`.
    outputs: where the lists and groups of everybody are written, each an asset of that name.
    """
    prefix = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)
    key = source.key if source else ()
    names = Names(tuple(part for part in prefix if part), group, key)
    settings = load_settings(Path(data_dir) if data_dir else None)
    return definitions_of(settings, names, executor, schedule, source=source, outputs=outputs)


def definitions_of(
    settings: Settings,
    names: Names = Names(),  # noqa: B008 - immutable
    executor: dg.ExecutorDefinition | None = None,
    schedule: str | None = None,
    *,
    source: Source | None = None,
    outputs: Sequence[Output] = (),
) -> dg.Definitions:
    """As `build_defs`, with settings that are loaded."""
    partitions, horizon = daily_partitions(settings, source), settings.evaluation.horizon_days
    every = (*ASSETS, evaluation.model_comparison)
    written = [serving.output_asset(names, partitions, output) for output in outputs]
    assets = [*(asset.build(names, partitions, horizon) for asset in every), *written]
    jobs = jobs_of(names, [asset.key for asset in written], executor)
    begin = [] if names.source else [logs.log_files(names)]
    return dg.Definitions(
        assets=[*begin, *assets, serving.model_in_use(names)],
        resources={names.resource: data_folder(settings, source)},
        jobs=jobs,
        schedules=schedules_of(names, partitions, jobs, schedule) if schedule else [],
        sensors=[
            log_file_sensor(names, partitions, jobs[0]),
            *alert_sensors(names, settings.alerts, {asset.key for asset in assets}),
        ],
        executor=executor,
    )
