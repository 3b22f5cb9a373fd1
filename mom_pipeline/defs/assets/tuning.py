"""Group `moments`: the settings that a day's model is made with."""

from datetime import date

import dagster as dg

from mom_pipeline.artifacts.day_artifacts import StaleArtifact
from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.defs import metadata
from mom_pipeline.defs.assets.logs import interaction_matrix
from mom_pipeline.defs.days import DayOutput, Materialized, daily_asset, for_each_day
from mom_pipeline.defs.engine import EngineResource
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.settings.chosen import ChosenSettings
from mom_pipeline.tuning.choosing import settings_of_day


class ChoiceConfig(dg.Config):
    """seconds: what a choice may take in this run; 0: as `tuning.budget_seconds` says."""

    seconds: float = 0.0


@daily_asset(
    "moments",
    {"numpy"},
    [
        interaction_matrix,
        dg.AssetDep("chosen_settings", partition_mapping=YESTERDAY),
    ],
    revision=1,
    uses_warehouse=True,
)
def chosen_settings(
    context: dg.AssetExecutionContext,
    config: ChoiceConfig,
    data_folder: DataFolder,
    engine: EngineResource,
) -> Materialized:
    """K, estimator, rows, personalization and the weights of the ranking, chosen on the last days.

    Learnt on what came before them and measured on what users took then, after
    `tuning.every_days` days and once the pairs have grown by `tuning.pair_growth`; in between a
    day takes those of the day before. What the settings file names is not for choice.
    """
    state, warehouse = data_folder.state, data_folder.warehouse

    def compute(day: date) -> DayOutput:
        matrix = state.fitting("interaction_matrix", day, with_arrays=False)
        earlier, n_pairs = _earlier(state, day), matrix.metadata["pairs"]
        chosen = settings_of_day(warehouse, day, n_pairs, earlier, config.seconds, engine)
        written = state.write_chosen(day, chosen, matrix.version)
        words = chosen.evidence.get("words", "the settings as they stand")
        return DayOutput(written.version, words, metadata.of_chosen(chosen))

    return for_each_day(context, compute)


def _earlier(state: DayState, day: date) -> ChosenSettings | None:
    """The settings of the day before; None where there are none to keep."""
    try:
        return state.chosen(state.day_before(day))
    except StaleArtifact:
        return None
