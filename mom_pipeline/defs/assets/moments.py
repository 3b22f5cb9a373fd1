"""Group `moments`: the sums over users, the whitening and the whitened tensor of each day."""

from datetime import date

import dagster as dg
import numpy as np

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.artifacts.store import Artifact
from mom_pipeline.core.algorithm.tensor import symmetry_error
from mom_pipeline.core.algorithm.tensor import whitened_tensor as whiten_triples
from mom_pipeline.core.algorithm.whitening import whiten, whitening_error
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.linear_algebra.symmetric import packed
from mom_pipeline.core.moments.days import Yesterday, advance
from mom_pipeline.core.types import Csr
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.assets.tuning import chosen_settings
from mom_pipeline.defs.days import DayOutput, Materialized, daily_asset, for_each_day
from mom_pipeline.defs.engine import EngineResource
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.settings import MatrixSettings


class RebuildConfig(dg.Config):
    """full: compute every day of the run from all users, with an anchor of its own."""

    full: bool = False


@daily_asset(
    "moments",
    {"numpy"},
    [
        chosen_settings,
        dg.AssetDep("m2_statistics", partition_mapping=YESTERDAY),
    ],
    revision=1,
    uses_warehouse=True,
)
def m2_statistics(
    context: dg.AssetExecutionContext,
    config: RebuildConfig,
    data_folder: DataFolder,
    engine: EngineResource,
) -> Materialized:
    """First, second and third moments, seen through the basis of the last full rebuild.

        H = sum_u a_u (B.T x)(B.T x).T,   T_B = sum_u a'_u (B.T x)^(⊗3),   C = sum_u a_u x (B.T x).T

    A day subtracts the old rows of its changed users and adds their new ones. It is computed in
    full when yesterday's sums cannot be built upon, or when the basis no longer holds enough of
    the second moment; `mode` says which, and why.
    """
    state, labels = data_folder.state, data_folder.item_labels()

    def compute(day: date) -> DayOutput:
        rows = state.rows(day)
        _require_rows(rows.X, state.settings.matrix)
        yesterday, before, reason = _yesterday(state, day, rows.X.shape, config.full)
        users = engine.users(rows)
        step = advance(rows.X, yesterday, reason, state.moment_settings(day), users)
        facts, settings = metadata.of_moments(step), state.settings
        n_components, early = state.chosen(day).model.n_components, checks.too_early(settings, day)
        verdicts = [
            checks.finite("finite_moments", step.sums.pairs, step.sums.triples),
            checks.enough_users(facts["users"], n_components, early),
            checks.captured(step.captured_share, settings.rebuild.capture_threshold, step.reason),
        ]
        written = state.write_moments(
            day, step, users, rows.version, before, facts, sound=checks.sound(verdicts)
        )
        shown = {
            **facts,
            "anchor_day": written.metadata["anchor_day"],
            "top_pairs": metadata.top_pairs(step, labels),
        }
        summary = f"{facts['mode']}, {len(step.changed)} users visited"
        return DayOutput(written.version, summary, shown, verdicts)

    return for_each_day(context, compute)


def _require_rows(X: Csr, matrix: MatrixSettings) -> None:
    """Raise TooLittleData when the filters left nothing: the first days of a log may be so."""
    if X.nnz == 0:
        raise TooLittleData(
            f"of {X.shape[0]:,} users and {X.shape[1]:,} items none passes the filters "
            f"(matrix.min_item_users = {matrix.min_item_users}, matrix.min_user_items = "
            f"{matrix.min_user_items}); add days, or lower them"
        )


def _yesterday(
    state: DayState, day: date, shape: tuple[int, int], full: bool
) -> tuple[Yesterday | None, Artifact | None, str]:
    """What the day starts from, with yesterday's artifact; or None, None and the reason."""
    try:
        if full:
            raise StaleArtifact("a full rebuild was asked for")
        yesterday, before = state.yesterday(day)
        if yesterday.X.shape[0] > shape[0] or yesterday.X.shape[1] > shape[1]:
            raise StaleArtifact(f"interaction_matrix of {day} is older than that of the day before")
    except StaleArtifact as reason:
        return None, None, str(reason)
    return yesterday, before, ""


@daily_asset("moments", {"numpy"}, [m2_statistics], revision=1)
def whitening_matrix(
    context: dg.AssetExecutionContext, data_folder: DataFolder, engine: EngineResource
) -> Materialized:
    """W with W.T M2 W = I, inside the span of the anchor's basis: W = U F.

    Only F and the spectrum are stored; U belongs to the anchor's day and does not change.
    """
    state = data_folder.state

    def compute(day: date) -> DayOutput:
        anchor, sums, parent = state.moments(day)
        users = engine.users(state.rows(day))
        n_components = state.chosen(day).model.n_components
        whitening = whiten(sums, n_components, dtype=anchor.basis.dtype)
        error = whitening_error(users, anchor, sums, whitening)
        verdicts = [checks.whitens(error)]
        written = state.write(
            "whitening_matrix",
            day,
            {"factors": whitening.factors, "spectrum": whitening.spectrum},
            {"m2_statistics": parent.version},
            {"whitening_error": error},
            sound=checks.sound(verdicts),
        )
        shown = {
            "n_components": whitening.n_components,
            "n_components_requested": whitening.requested,
            "whitening_error": error,
            "captured_share": parent.metadata["captured_share"],
            "passes": parent.metadata["passes"],
            "spectrum": metadata.spectrum(whitening),
        }
        summary = f"K = {whitening.n_components}, error {error:.1e}"
        return DayOutput(written.version, summary, shown, verdicts)

    return for_each_day(context, compute)


@daily_asset("moments", {"numpy"}, [whitening_matrix], revision=1)
def whitened_tensor(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """The third moment in whitened coordinates, T = T_B(F, F, F), of shape (K, K, K).

    T_B was brought up to date with the changed users of the day; no user is visited again.
    """
    state = data_folder.state

    def compute(day: date) -> DayOutput:
        _, sums, moments = state.moments(day)
        whitening, parent = state.whitening(day)
        T = whiten_triples(sums, whitening)
        verdicts = [checks.finite("finite_tensor", T)]
        written = state.write(
            "whitened_tensor",
            day,
            {"tensor": packed(T)},
            {"whitening_matrix": parent.version},
            {},
            sound=checks.sound(verdicts),
        )
        norm = float(np.linalg.norm(T))
        shown = {
            "symmetry_error": symmetry_error(T),
            "norm": norm,
            "users_visited": moments.metadata["changed_users"],
            "shape": str(T.shape),
        }
        return DayOutput(written.version, f"norm {norm:.3f}", shown, verdicts)

    return for_each_day(context, compute)
