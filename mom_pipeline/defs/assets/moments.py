"""Group `moments`: the sums over users, the whitening and the whitened tensor of each day."""

from datetime import date

import dagster as dg
import numpy as np

from mom_pipeline.core.algorithm.tensor import symmetry_error
from mom_pipeline.core.algorithm.tensor import whitened_tensor as whiten_triples
from mom_pipeline.core.algorithm.whitening import whiten, whitening_error
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.linear_algebra.compact import packed
from mom_pipeline.core.moments.days import Yesterday, advance
from mom_pipeline.core.types import Csr
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.daily import DayOutput, DayRun, content_hash, daily_asset
from mom_pipeline.pipeline.choice import ChosenSettings, ranking_parts
from mom_pipeline.pipeline.days import Days, NotUsable
from mom_pipeline.settings import MatrixSettings
from mom_pipeline.tuning.choosing import settings_of_day


@daily_asset(
    "moments",
    {"numpy"},
    "interaction_matrix",
    from_yesterday=True,
    config={"seconds": dg.Field(float, default_value=0.0, is_required=False)},
)
def chosen_settings(run: DayRun, day: date) -> DayOutput:
    """K, estimator, rows, personalization and the weights of the ranking, chosen on the last days.

    Learnt on what came before them and measured on what users took then, after
    `tuning.every_days` days and once the interactions have grown; in between a day takes those of
    the day before. What the settings file names is not for choice.
    """
    days = run.days
    matrix, earlier = days.usable("interaction_matrix", day).facts, _earlier(days, day)
    sizes = matrix["users"], matrix["interactions"]
    chosen = settings_of_day(
        run.folder.warehouse, day, *sizes, earlier, run.config["seconds"], run.folder
    )
    version = content_hash(chosen.method)
    days.publish("chosen_settings", day, version=version, facts={"chosen": chosen.as_dict()})
    words = chosen.evidence.get("words", "the settings as they stand")
    return DayOutput(version, words, metadata.of_chosen(chosen))


def _earlier(days: Days, day: date) -> ChosenSettings | None:
    """The settings of the day before; None where there are none to keep."""
    try:
        return days.chosen(days.day_before(day))
    except NotUsable:
        return None


@daily_asset(
    "moments",
    {"numpy"},
    "chosen_settings",
    from_yesterday=True,
    config={"full": dg.Field(bool, default_value=False, is_required=False)},
)
def m2_statistics(run: DayRun, day: date) -> DayOutput:
    """First, second and third moments, seen through the basis of the last full rebuild.

        H = sum_u a_u (B.T x)(B.T x).T,   T_B = sum_u a'_u (B.T x)^(⊗3),   C = sum_u a_u x (B.T x).T

    A day subtracts the old rows of its changed users and adds their new ones. It is computed in
    full when yesterday's sums cannot be built upon, or when the basis no longer holds enough of
    the second moment; `mode` says which, and why.
    """
    days, settings = run.days, run.folder.settings
    rows = days.rows(day)
    _require_rows(rows.X, settings.matrix)
    yesterday, reason = _yesterday(days, day, run.config["full"])
    users, chosen = run.folder.users(rows), days.chosen(day)
    step = advance(rows.X, yesterday, reason, days.moment_settings(day), users)
    parts = ranking_parts(users, chosen) if step.reason and step.pairs is not None else {}
    facts, threshold = metadata.of_moments(step), settings.rebuild.capture_threshold
    early = checks.too_early(settings, day)
    verdicts = [
        checks.finite("finite_moments", step.sums.pairs, step.sums.triples),
        checks.enough_users(facts["users"], chosen.model.n_components, early),
        checks.captured(step.captured_share, threshold, step.reason),
    ]
    made = days.write_moments(day, step, parts, facts, sound=checks.sound(verdicts))
    shown = {
        **facts,
        "anchor_day": made.facts["anchor_day"],
        "top_pairs": metadata.top_pairs(step.pairs, run.folder.item_labels()),
    }
    summary = f"{facts['mode']}, {len(step.changed)} users visited"
    return DayOutput(made.version, summary, shown, verdicts)


def _require_rows(X: Csr, matrix: MatrixSettings) -> None:
    """Raise TooLittleData when the filters left nothing: the first days of a log may be so."""
    if X.nnz == 0:
        raise TooLittleData(
            f"of {X.shape[0]:,} users and {X.shape[1]:,} items none passes the filters "
            f"(matrix.min_item_users = {matrix.min_item_users}, matrix.min_user_items = "
            f"{matrix.min_user_items}); add days, or lower them"
        )


def _yesterday(days: Days, day: date, full: bool) -> tuple[Yesterday | None, str]:
    """What the day starts from; or None, and the reason."""
    try:
        if full:
            raise NotUsable("a full rebuild was asked for")
        return days.yesterday(day), ""
    except NotUsable as reason:
        return None, str(reason)


@daily_asset("moments", {"numpy"}, "m2_statistics")
def whitening_matrix(run: DayRun, day: date) -> DayOutput:
    """W with W.T M2 W = I, inside the span of the anchor's basis: W = U F.

    Only F and the spectrum are stored; U belongs to the anchor's day and does not change.
    """
    days = run.days
    anchor, sums = days.moments(day)
    users = run.folder.users(days.rows(day))
    n_components = days.chosen(day).model.n_components
    whitening = whiten(sums, n_components, dtype=anchor.basis.dtype)
    error = whitening_error(users, anchor, sums, whitening)
    verdicts = [checks.whitens(error)]
    made = days.publish(
        "whitening_matrix",
        day,
        arrays={"factors": whitening.factors, "spectrum": whitening.spectrum},
        facts={"whitening_error": error},
        sound=checks.sound(verdicts),
    )
    moments = days.made["m2_statistics", day].facts
    shown = {
        "n_components": whitening.n_components,
        "n_components_requested": whitening.requested,
        "whitening_error": error,
        "captured_share": moments["captured_share"],
        "passes": moments["passes"],
        "spectrum": metadata.spectrum(whitening),
    }
    summary = f"K = {whitening.n_components}, error {error:.1e}"
    return DayOutput(made.version, summary, shown, verdicts)


@daily_asset("moments", {"numpy"}, "whitening_matrix")
def whitened_tensor(run: DayRun, day: date) -> DayOutput:
    """The third moment in whitened coordinates, T = T_B(F, F, F), of shape (K, K, K).

    T_B was brought up to date with the changed users of the day; no user is visited again.
    """
    days = run.days
    _, sums = days.moments(day)
    T = whiten_triples(sums, days.whitening(day))
    verdicts = [checks.finite("finite_tensor", T)]
    made = days.publish(
        "whitened_tensor", day, arrays={"tensor": packed(T)}, sound=checks.sound(verdicts)
    )
    norm = float(np.linalg.norm(T))
    shown = {
        "symmetry_error": symmetry_error(T),
        "norm": norm,
        "users_visited": days.made["m2_statistics", day].facts["changed_users"],
        "shape": str(T.shape),
    }
    return DayOutput(made.version, f"norm {norm:.3f}", shown, verdicts)
