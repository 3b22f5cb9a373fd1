"""The arrays of every stored day without one user.

The matrix of a day is made anew from the rows that are left. This also takes out an item that
the user's leaving puts below the filter, and so touches other users' rows. The moments then lose
the old rows of all changed users and gain their new ones, which is exact: up to rounding they
are what the day would hold if the user had never been there, seen through the same anchor.
The anchor stays. It is a basis of the item space, computed once with the user among all others;
it holds no row of anyone, and the next full rebuild replaces it.

What is computed from the moments is removed, to be materialized again.
"""

from collections import Counter
from dataclasses import replace
from datetime import date

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.artifacts.half_state import half_artifact, read_half
from mom_pipeline.artifacts.store import Artifact
from mom_pipeline.core.evaluation.split_half import HalfMoments, half_of, updated_half
from mom_pipeline.core.moments.anchored import Anchor, AnchoredMoments
from mom_pipeline.core.moments.daily import (
    DayMoments,
    changed_rows,
    grown,
    pair_counts,
    update,
    with_items,
)
from mom_pipeline.core.types import Csr
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import matrix_as_of

# Made from the moments: users' posteriors, and parameters that the user had a part in.
DERIVED = ("whitening_matrix", "whitened_tensor", "decomposition", "user_personalization")


def erase_from_days(warehouse: Warehouse, state: DayState) -> Counter[str]:
    """Bring matrix, moments and half of every stored day to the rows that are left.

    The user's rows must have left the warehouse before. Once more changes nothing; a day that
    was interrupted is summed over all its rows, through its anchor.
    """
    counts: Counter[str] = Counter()
    for day in state.artifacts.days("interaction_matrix"):
        try:
            _erase_from_day(warehouse, state, day)
            counts["days of matrices and moments"] += 1
        except StaleArtifact:
            counts["days removed that could not be read"] += 1
            state.artifacts.remove("interaction_matrix", day)
    kept = set(state.artifacts.days("interaction_matrix"))
    for asset in ("m2_statistics", "user_half"):
        for day in set(state.artifacts.days(asset)) - kept:
            state.artifacts.remove(asset, day)
    for asset in DERIVED:
        for day in state.artifacts.days(asset):
            state.artifacts.remove(asset, day)
            counts["arrays to be computed again"] += 1
    return counts


def _erase_from_day(warehouse: Warehouse, state: DayState, day: date) -> None:
    before, version = state.matrix(day)
    found = state.fitting("m2_statistics", day)
    fits = found.parents["interaction_matrix"] == version
    matrix = matrix_as_of(warehouse, day)
    X = matrix.interactions
    if before.shape[0] > X.shape[0] or before.shape[1] > X.shape[1]:
        raise StaleArtifact(f"interaction_matrix of {day} is wider than the dictionaries")
    sums = state.moments_of(found)
    half = _half_of(state, day, before, X, sums) if fits else half_of(X, _anchor(sums, X))
    sums = _updated(sums, before, X) if fits else _summed(sums, X)
    written = state.write(
        "interaction_matrix", day, {"interactions": X}, {"raw_logs": matrix.fingerprint}, {}
    )
    moments = _write_moments(state, day, sums, found, written)
    state.write(*half_artifact(day, half, moments))


def _anchor(sums: DayMoments, X: Csr) -> Anchor:
    return with_items(sums.moments, X.shape[1]).anchor


def _half_of(state: DayState, day: date, before: Csr, X: Csr, sums: DayMoments) -> HalfMoments:
    anchor = _anchor(sums, X)
    try:
        half = read_half(state, day)
    except StaleArtifact:
        return half_of(X, anchor)
    return updated_half(half, before, X, changed_rows(before, X), anchor)


def _updated(sums: DayMoments, before: Csr, X: Csr) -> DayMoments:
    changed = changed_rows(before, X)
    return update(sums, grown(before, X.shape)[changed], X[changed])


def _summed(sums: DayMoments, X: Csr) -> DayMoments:
    whole = AnchoredMoments.of(X, _anchor(sums, X))
    return replace(sums, moments=whole, pair_counts=pair_counts(X, sums.frequent_items))


def _write_moments(
    state: DayState, day: date, sums: DayMoments, found: Artifact, matrix: Artifact
) -> Artifact:
    """Store the sums under the anchor that they had; its own artifact is not touched."""
    parents = {"interaction_matrix": matrix.version, "anchor": found.parents["anchor"]}
    facts = {**found.metadata, "users": sums.moments.sums.n_users}
    return state.write_sums(day, sums, parents, facts, sound=bool(found.metadata["sound"]))
