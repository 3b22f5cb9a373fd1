"""Group `moments`: the sums over users, the whitening and the whitened tensor of each day."""

from datetime import date
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.artifacts.half_state import write_half
from mom_pipeline.core.algorithm.daily_classes import (
    symmetry_error,
    tensor_in_span,
    whiten_in_span,
    whitening_error,
)
from mom_pipeline.core.moments.daily import DayMoments, DayStep, advance
from mom_pipeline.core.types import Array
from mom_pipeline.defs import checks
from mom_pipeline.defs.assets.logs import interaction_matrix
from mom_pipeline.defs.days import DayOutcome, Materialized, daily_asset, for_each_day
from mom_pipeline.defs.engine import EngineResource
from mom_pipeline.defs.metadata import picture, table
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.pictures import bars

_TOP_PAIRS = 10


class RebuildConfig(dg.Config):
    """full: compute every day of the run from all users, with an anchor of its own."""

    full: bool = False


@daily_asset(
    "moments",
    {"numpy"},
    [interaction_matrix, dg.AssetDep("m2_statistics", partition_mapping=YESTERDAY)],
    uses_warehouse=True,
)
def m2_statistics(
    context: dg.AssetExecutionContext,
    config: RebuildConfig,
    data_folder: DataFolder,
    engine: EngineResource,
) -> Materialized:
    """First, second and third moments, seen through the basis of the last full rebuild.

        H = sum_u a_u (B.T x)(B.T x).T,     T_B = sum_u a'_u (B.T x)^(⊗3)

    A day subtracts the old rows of its changed users and adds their new ones. It is computed in
    full when yesterday's sums cannot be built upon, or when the basis no longer holds enough of
    the second moment; `mode` says which, and why.
    """
    state, item_ids = data_folder.state, data_folder.item_ids()

    def step(day: date) -> DayOutcome:
        X, version = state.matrix(day)
        yesterday, anchor_day, reason = _predecessor(state, day, X.shape, config.full)
        with engine.visiting() as visiting:
            done = advance(X, yesterday, reason, state.daily_settings, visiting)
        moments = done.state.moments
        verdicts = [
            checks.finite("finite_moments", moments.pairs, moments.triples),
            checks.captured(done.captured, state.settings.rebuild.capture_threshold),
        ]
        written = state.write_moments(
            day, done.state, {"interaction_matrix": version}, _facts(done),
            anchor_day=day if done.reason else anchor_day, sound=checks.sound(verdicts),
        )  # fmt: skip
        write_half(state, day, X, yesterday[0] if yesterday else None, done, written)
        metadata = {
            **_facts(done),
            "anchor_day": written.metadata["anchor_day"],
            "top_pairs": table(_top_pairs(done.state, item_ids)),
        }
        summary = f"{metadata['mode']}, {len(done.changed)} users visited"
        return DayOutcome(written.version, summary, metadata, verdicts)

    return for_each_day(context, step)


def _predecessor(
    state: DayState, day: date, shape: tuple[int, int], full: bool
) -> tuple[tuple[Any, DayMoments] | None, date, str]:
    """Yesterday's rows and sums and their anchor's day, or None and the reason."""
    try:
        if full:
            raise StaleArtifact("a full rebuild was asked for")
        rows, sums, anchor_day = state.moments_before(day)
        if rows.shape[0] > shape[0] or rows.shape[1] > shape[1]:
            raise StaleArtifact(f"interaction_matrix of {day} is older than that of the day before")
    except StaleArtifact as reason:
        return None, day, str(reason)
    return (rows, sums), anchor_day, ""


def _facts(done: DayStep) -> dict[str, Any]:
    d1, d2, d3 = done.state.moments.sums.mean_sizes
    return {
        "mode": f"full: {done.reason}" if done.reason else "incremental",
        "changed_users": len(done.changed),
        "users": done.state.moments.sums.n_users,
        "d1s": d1,
        "d2s": d2,
        "d3s": d3,
        "captured": done.captured,
        "passes": done.state.passes,
    }


def _top_pairs(state: DayMoments, item_ids: Array) -> list[dict[str, Any]]:
    """The most frequent pairs among the frequent items, counted exactly."""
    counts = np.triu(state.pair_counts, 1)
    best = np.argsort(-counts, axis=None, kind="stable")[:_TOP_PAIRS]
    places = np.array(np.unravel_index(best, counts.shape)).T
    return [
        {
            "item": str(item_ids[state.frequent_items[i]]),
            "other_item": str(item_ids[state.frequent_items[j]]),
            "users": int(counts[i, j]),
        }
        for i, j in places
        if counts[i, j] > 0
    ]


@daily_asset("moments", {"numpy"}, [m2_statistics, interaction_matrix])
def whitening_matrix(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """W with W.T M2 W = I, inside the span of the anchor's basis: W = U F.

    Only F and the spectrum are stored; U belongs to the anchor's day and does not change.
    """
    state = data_folder.state

    def step(day: date) -> DayOutcome:
        sums, parent = state.moments(day)
        X, _ = state.matrix(day)
        found = whiten_in_span(sums.moments, state.settings.model.n_components)
        error = whitening_error(X, sums.moments, found)
        verdicts = [checks.whitens(error)]
        written = state.write(
            "whitening_matrix",
            day,
            {"factors": found.factors, "spectrum": found.spectrum},
            {"m2_statistics": parent.version},
            {"whitening_error": error},
            sound=checks.sound(verdicts),
        )
        metadata = {
            "n_components": found.n_components,
            "n_components_requested": found.requested,
            "whitening_error": error,
            "subspace_capture": parent.metadata["captured"],
            "passes": parent.metadata["passes"],
            "spectrum": picture(bars(
                found.spectrum,
                title=f"Eigenvalues of M2; the first {found.n_components} are whitened",
                x="number of the eigenvalue", y="eigenvalue", log=True,
            )),
        }  # fmt: skip
        return DayOutcome(
            written.version, f"K = {found.n_components}, error {error:.1e}", metadata, verdicts
        )

    return for_each_day(context, step)


@daily_asset("moments", {"numpy"}, [m2_statistics, whitening_matrix])
def whitened_tensor(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """The third moment in whitened coordinates, T = T_B(F, F, F), of shape (K, K, K).

    T_B was brought up to date with the changed users of the day; no user is visited again.
    """
    state = data_folder.state

    def step(day: date) -> DayOutcome:
        sums, _ = state.moments(day)
        whitening, parent = state.whitening(day)
        T = tensor_in_span(sums.moments, whitening)
        verdicts = [checks.finite("finite_tensor", T)]
        written = state.write(
            "whitened_tensor",
            day,
            {"tensor": T},
            {"whitening_matrix": parent.version},
            {},
            sound=checks.sound(verdicts),
        )
        visited = state.artifacts.describe("m2_statistics", day).metadata["changed_users"]
        norm = float(np.linalg.norm(T))
        metadata = {
            "symmetry_error": symmetry_error(T),
            "norm": norm,
            "users_visited": visited,
            "shape": str(T.shape),
        }
        return DayOutcome(written.version, f"norm {norm:.3f}", metadata, verdicts)

    return for_each_day(context, step)
