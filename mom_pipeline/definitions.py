"""The one `Definitions` of the project: what `dagster dev` and the commands load."""

import logging

import dagster as dg

from mom_pipeline.dagster_home import another_home
from mom_pipeline.defs.alerts import check_alert, failure_alert
from mom_pipeline.defs.assets import (
    comparison,
    ends,
    evaluation,
    logs,
    model,
    moments,
    promotion,
    report,
    serving,
    tuning,
)
from mom_pipeline.defs.automation import (
    comparison_job,
    daily_update,
    daily_update_schedule,
    full_rebuild,
    leaf_sensor,
    log_file_sensor,
    weekly_rebuild_schedule,
)
from mom_pipeline.defs.engine import EngineResource
from mom_pipeline.defs.partitions import SETTINGS
from mom_pipeline.defs.resources import DataFolder

# The assets of every day.
ASSETS = (
    logs.raw_logs,
    logs.interaction_matrix,
    tuning.chosen_settings,
    moments.m2_statistics,
    moments.whitening_matrix,
    moments.whitened_tensor,
    model.decomposition,
    serving.user_personalization,
    serving.recommendations,
    evaluation.evaluation_metrics,
    promotion.promotion,
    report.report,
)
# Those with a job of their own: too slow for every night.
OCCASIONAL_ASSETS = (comparison.model_comparison,)

if line := another_home(SETTINGS):
    logging.getLogger("dagster").warning(line)

defs = dg.Definitions(
    assets=[
        ends.log_files,
        *dg.with_source_code_references([*ASSETS, *OCCASIONAL_ASSETS]),
        ends.model_in_use,
    ],
    resources={
        "data_folder": DataFolder(data_dir=str(SETTINGS.data_dir)),
        "engine": EngineResource(data_dir=str(SETTINGS.data_dir)),
    },
    jobs=[daily_update, full_rebuild, comparison_job],
    schedules=[daily_update_schedule, weekly_rebuild_schedule],
    sensors=[log_file_sensor, leaf_sensor, failure_alert, check_alert],
    # The chain is linear, and a step costs half a second in the process against five outside.
    executor=dg.in_process_executor,
)
