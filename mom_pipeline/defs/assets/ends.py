"""Where the graph begins and where it ends: the log files, and the model in use. No run makes them.

Files are delivered, and a person may put a version in use: what is known of both is told to
Dagster when it is seen.
"""

from typing import Any

import dagster as dg

from mom_pipeline.defs.conditions import DAILY_FRESH
from mom_pipeline.defs.days import OWNERS
from mom_pipeline.serving.registry import ModelRegistry

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


def champion_event(registry: ModelRegistry) -> dg.AssetMaterialization:
    """Tell which version is in use, since when, and why."""
    change = registry.history()[-1]
    told: dict[str, Any] = {
        "model_version": change.version,
        "since": change.time,
        "kind": change.kind,
        "by": change.by,
        "reason": change.reason,
    }
    return dg.AssetMaterialization(
        model_in_use.key, metadata=told, tags={"dagster/data_version": change.version}
    )
