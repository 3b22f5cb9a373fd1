"""Group `model`: the latent classes of each day."""

from dataclasses import asdict
from datetime import date, timedelta
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.artifacts.half_state import read_half
from mom_pipeline.artifacts.store import Artifact
from mom_pipeline.core.algorithm.daily_classes import DayClasses, decompose_day, drift
from mom_pipeline.core.evaluation.split_half import split_half_agreement
from mom_pipeline.core.evaluation.theorem1 import theorem_1
from mom_pipeline.core.ranking.parts import popularity_shares
from mom_pipeline.core.types import Array
from mom_pipeline.defs import checks
from mom_pipeline.defs.assets.logs import interaction_matrix
from mom_pipeline.defs.assets.moments import m2_statistics, whitened_tensor, whitening_matrix
from mom_pipeline.defs.days import DayOutcome, Materialized, daily_asset, for_each_day
from mom_pipeline.defs.metadata import picture, table
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.pictures import bars

_TOP_ITEMS = 8
_BOUNDS = ("mu_bound", "pi_bound", "n1", "n2", "n3", "sigma_1", "sigma_k", "delta")


@daily_asset(
    "model",
    {"numpy"},
    [
        whitened_tensor,
        whitening_matrix,
        m2_statistics,
        interaction_matrix,
        dg.AssetDep("decomposition", partition_mapping=YESTERDAY),
    ],
    uses_warehouse=True,
)
def decomposition(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """The latent classes: O = P[item | class] and pi = P[class].

    All components of the tensor are found at once, starting from those of the anchor's day;
    each keeps its number from day to day, also across a rebuild. `agreement` tells how well two
    halves of the users, each for itself, find the same component: 1 the same, 0 none.
    Going back to items takes one pass over the rows, so that an item that is new today has its
    probabilities today.
    """
    state, item_ids = data_folder.state, data_folder.item_ids()

    def step(day: date) -> DayOutcome:
        sums, _ = state.moments(day)
        whitening, _ = state.whitening(day)
        tensor = state.built_on("whitened_tensor", day, "whitening_matrix")
        before = _classes_before(state, day)
        anchor_version = state.artifacts.describe("m2_statistics", day).parents["anchor"]
        classes = decompose_day(
            state.matrix(day)[0], sums.moments, whitening, tensor.dense["tensor"],
            state.settings.model.projection,  # type: ignore[arg-type]
            state.settings.model.seed,
            anchor_components=_start(before, anchor_version),
            earlier_item_probs=None if before is None else before.dense["item_probs"],
        )  # fmt: skip
        O, pi = classes.recovery.item_probs, classes.recovery.weights
        verdicts = [checks.distributions("distributions", pi=pi, O=O)]
        agreement = split_half_agreement(
            sums.moments, read_half(state, day), classes.span_components, state.settings.model.seed
        )
        threshold = state.settings.evaluation.min_agreement
        verdicts.append(checks.split_half(agreement, pi, threshold))
        moved = drift(O, O if before is None else before.dense["item_probs"])
        facts = _facts(classes, float(moved.max()), agreement)
        sizes = sums.moments.sums
        written = state.write_classes(
            day, classes, popularity_shares(sizes.item_users),
            {"whitened_tensor": tensor.version, "anchor": anchor_version},
            {**facts, "agreement": agreement.tolist()}, sound=checks.sound(verdicts),
        )  # fmt: skip
        bounds = theorem_1(
            sizes.n_users, sizes.mean_sizes, whitening.eigenvalues, pi,
            delta=state.settings.model.delta,
        )  # fmt: skip
        metadata = {
            **facts,
            "components": table(_components(classes, moved, agreement, item_ids)),
            "pi": picture(
                bars(pi, title="pi, the weights of the classes", x="component", y="P[class]")
            ),
            "bounds": table([{k: float(v) for k, v in asdict(bounds).items() if k in _BOUNDS}]),
            "bounds_in_words": bounds.in_words,
            "warnings": "; ".join(bounds.warnings) or "none",
        }
        summary = f"{len(pi)} classes, residual {facts['residual']:.4f}"
        return DayOutcome(written.version, summary, metadata, verdicts)

    return for_each_day(context, step)


def _classes_before(state: DayState, day: date) -> Artifact | None:
    try:
        return state.fitting("decomposition", day - timedelta(days=1))
    except StaleArtifact:
        return None


def _start(before: Artifact | None, anchor_version: str) -> Array | None:
    """The components of the anchor's day, if yesterday was seen through the same anchor."""
    if before is None or before.parents["anchor"] != anchor_version:
        return None
    return before.dense["anchor_components"]


def _facts(classes: DayClasses, moved: float, agreement: Array) -> dict[str, Any]:
    found, recovery = classes.decomposition, classes.recovery
    return {
        "residual": found.residual,
        "sweeps": found.iterations,
        "negative_mass": recovery.negative_mass,
        "weight_sum": recovery.weight_sum,
        "largest_drift": moved,
        "lowest_agreement": float(agreement.min()),
        "mean_agreement": float(agreement @ recovery.weights),
    }


def _components(
    classes: DayClasses, moved: Array, agreement: Array, item_ids: Array
) -> list[dict[str, Any]]:
    """lambda, pi, drift since yesterday, split-half agreement and the most probable items."""
    O = classes.recovery.item_probs
    return [
        {
            "component": k + 1,
            "pi": round(float(classes.recovery.weights[k]), 4),
            "lambda": round(float(classes.decomposition.lambdas[k]), 4),
            "drift": round(float(moved[k]), 4),
            "agreement": round(float(agreement[k]), 3),
            "top_items": ", ".join(
                str(item_ids[y]) for y in np.argsort(-O[:, k], kind="stable")[:_TOP_ITEMS]
            ),
        }
        for k in range(O.shape[1])
    ]
