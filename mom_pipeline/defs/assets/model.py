"""Group `model`: the components of each day."""

from datetime import date

import dagster as dg

from mom_pipeline.artifacts.day_artifacts import StaleArtifact
from mom_pipeline.artifacts.day_state import DayState, item_probs_in
from mom_pipeline.core.algorithm.decompose import ComponentFit, find_components
from mom_pipeline.core.evaluation.drift import drift
from mom_pipeline.core.evaluation.split_half import split_half
from mom_pipeline.core.evaluation.theorem1 import bounds_of_fit
from mom_pipeline.core.linear_algebra.symmetric import unpacked
from mom_pipeline.core.types import Array
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.assets.moments import whitened_tensor
from mom_pipeline.defs.days import DayOutput, Materialized, daily_asset, for_each_day
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder


@daily_asset(
    "model",
    {"numpy"},
    [
        whitened_tensor,
        dg.AssetDep("decomposition", partition_mapping=YESTERDAY),
    ],
    revision=1,
    uses_warehouse=True,
)
def decomposition(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """The components: O = P[item | component] and pi = P[component].

    All components of the tensor are computed at once, starting from those of the anchor's day;
    each keeps its number from day to day, also across a rebuild. `agreement` tells how well two
    halves of the users, each for itself, find the same component: 1 the same, 0 none.
    """
    state, labels = data_folder.state, data_folder.item_labels()

    def compute(day: date) -> DayOutput:
        earlier, settings = _earlier_item_probs(state, day), state.settings
        fit, parents = _fit(state, day, earlier)
        components, O, pi = fit.components, fit.components.item_probs, fit.components.weights
        halves = split_half(
            fit.sums,
            components.in_span,
            settings.model.seed,
            starts=fit.anchor.half_components,
        )
        agreement = halves.agreement
        moved = drift(O, O if earlier is None else earlier)
        verdicts = [
            checks.distributions("distributions", pi=pi, O=O),
            checks.split_half(
                agreement,
                pi,
                settings.evaluation.min_agreement,
                checks.too_early(settings, day),
            ),
        ]
        facts = metadata.of_components(components, moved, agreement)
        stored = {**facts, "agreement": agreement.tolist(), "drift": moved.tolist()}
        written = state.write_components(
            day, components, halves, fit.anchor, parents, stored, sound=checks.sound(verdicts)
        )
        shown = {
            **facts,
            "components": metadata.component_table(components, moved, agreement, labels),
            "pi": metadata.weights_picture(components),
            **metadata.of_bounds(bounds_of_fit(fit, settings.model.delta)),
        }
        summary = f"{len(pi)} components, residual {facts['residual']:.4f}"
        return DayOutput(written.version, summary, shown, verdicts)

    return for_each_day(context, compute)


def _fit(
    state: DayState, day: date, earlier_item_probs: Array | None
) -> tuple[ComponentFit, dict[str, str]]:
    """Return the components of a day with their sums, and the versions they were made from."""
    anchor, sums, moments = state.moments(day)
    whitening, _ = state.whitening(day)
    tensor = state.built_on("whitened_tensor", day, "whitening_matrix")
    parents = {"whitened_tensor": tensor.version, "anchor": moments.parents["anchor"]}
    anchor = state.with_components(day, anchor, parents["anchor"])
    components = find_components(
        anchor,
        sums,
        whitening,
        unpacked(tensor.dense["tensor"], whitening.n_components),
        state.decompose_settings(day),
        earlier_item_probs=earlier_item_probs,
    )
    return ComponentFit(anchor, sums, components), parents


def _earlier_item_probs(state: DayState, day: date) -> Array | None:
    try:
        return item_probs_in(state.fitting("decomposition", state.day_before(day)))
    except StaleArtifact:
        return None
