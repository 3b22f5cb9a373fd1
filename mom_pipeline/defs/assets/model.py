"""Group `model`: the components of each day."""

from dataclasses import replace
from datetime import date, timedelta

import dagster as dg

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.core.algorithm.decompose import find_components
from mom_pipeline.core.evaluation.drift import drift
from mom_pipeline.core.evaluation.split_half import split_half_agreement
from mom_pipeline.core.evaluation.theorem1 import bounds_of
from mom_pipeline.core.types import Array
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.assets.moments import m2_statistics, whitened_tensor, whitening_matrix
from mom_pipeline.defs.days import DayOutput, Materialized, daily_asset, for_each_day
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder


@daily_asset(
    "model",
    {"numpy"},
    [
        whitened_tensor,
        whitening_matrix,
        m2_statistics,
        dg.AssetDep("decomposition", partition_mapping=YESTERDAY),
    ],
    uses_warehouse=True,
)
def decomposition(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """The components: O = P[item | component] and pi = P[component].

    All components of the tensor are found at once, starting from those of the anchor's day;
    each keeps its number from day to day, also across a rebuild. `agreement` tells how well two
    halves of the users, each for itself, find the same component: 1 the same, 0 none.
    """
    state, item_ids = data_folder.state, data_folder.item_ids()

    def compute(day: date) -> DayOutput:
        anchor, sums, moments = state.moments(day)
        whitening, _ = state.whitening(day)
        tensor = state.built_on("whitened_tensor", day, "whitening_matrix")
        version = moments.parents["anchor"]
        anchor = replace(anchor, components=state.anchor_components(day, version))
        earlier = _earlier_item_probs(state, day)
        components = find_components(
            anchor,
            sums,
            whitening,
            tensor.dense["tensor"],
            state.decompose_settings,
            earlier_item_probs=earlier,
        )
        O, pi = components.item_probs, components.weights
        agreement = split_half_agreement(sums, components.in_span, state.settings.model.seed)
        verdicts = [
            checks.distributions("distributions", pi=pi, O=O),
            checks.split_half(agreement, pi, state.settings.evaluation.min_agreement),
        ]
        moved = drift(O, O if earlier is None else earlier)
        facts = metadata.of_components(components, moved, agreement)
        written = state.write_components(
            day,
            components,
            anchor,
            {"whitened_tensor": tensor.version, "anchor": version},
            {**facts, "agreement": agreement.tolist()},
            sound=checks.sound(verdicts),
        )
        shown = {
            **facts,
            "components": metadata.component_table(components, moved, agreement, item_ids),
            "pi": metadata.weights_picture(components),
            **metadata.of_bounds(
                bounds_of(
                    anchor.estimator,
                    sums.first,
                    whitening.eigenvalues,
                    pi,
                    state.settings.model.delta,
                )
            ),
        }
        summary = f"{len(pi)} components, residual {facts['residual']:.4f}"
        return DayOutput(written.version, summary, shown, verdicts)

    return for_each_day(context, compute)


def _earlier_item_probs(state: DayState, day: date) -> Array | None:
    try:
        return state.fitting("decomposition", day - timedelta(days=1)).dense["item_probs"]
    except StaleArtifact:
        return None
