"""Where the graph begins and where it ends: the log files, and the model in use. No run makes them.

Files are delivered, and a person may put a version in use: the next run tells Dagster which it is.
"""

import dagster as dg

from mom_pipeline.defs.conditions import DAILY_FRESH
from mom_pipeline.defs.days import OWNERS
from mom_pipeline.serving.registry import ModelRegistry

_VERSION = "dagster/data_version"

log_files = dg.AssetSpec(
    "log_files",
    group_name="logs",
    kinds={"csv", "file"},
    owners=OWNERS,
    description="The files of the logs folder, each named after its delivery day.",
)
model_in_use = dg.AssetSpec(
    "model_in_use",
    deps=["promotion"],
    group_name="gate",
    kinds={"numpy"},
    owners=OWNERS,
    freshness_policy=DAILY_FRESH,
    description="The version that commands, Python and HTTP answer from.",
)


def untold_champion(
    instance: dg.DagsterInstance, registry: ModelRegistry
) -> dg.AssetMaterialization | None:
    """Return word of the version in use, since when and why; None where Dagster has it already."""
    history = registry.history()
    last = instance.get_latest_materialization_event(model_in_use.key)
    told = (last.asset_materialization.tags or {}) if last and last.asset_materialization else {}
    if not history or told.get(_VERSION) == history[-1].version:
        return None
    change = history[-1]
    return dg.AssetMaterialization(
        model_in_use.key,
        metadata={
            "model_version": change.version,
            "since": change.time,
            "kind": change.kind,
            "by": change.by,
            "reason": change.reason,
        },
        tags={_VERSION: change.version},
    )
