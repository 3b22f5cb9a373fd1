"""Erasure of one user from the arrays of every stored day.

The matrix of a day is computed again from the rows that are left. This also takes out an item that
the user's leaving puts below the filter, and so touches other users' rows. The moments then lose
the old rows of all changed users and gain their new ones, which is exact: up to rounding they
are what the day would hold if the user had never been there, seen through the same anchor.
The pairs of the anchor's day and of every day are counted again from the rows that are left.
What else an anchor holds stays: a basis of the item space, the low-pass and the EASE part,
computed once with the user among all others. They hold no row of anyone, and the next full rebuild
replaces them.

What is computed from the moments is removed, to be materialized again.
"""

from collections import Counter
from dataclasses import replace
from datetime import date

import numpy as np

from mom_pipeline.artifacts.day_artifacts import Expired, StaleArtifact
from mom_pipeline.artifacts.day_state import DayState, sums_in
from mom_pipeline.artifacts.store import Artifact
from mom_pipeline.core.interactions import changed_rows, grown
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.days import AnchoredPairs
from mom_pipeline.core.moments.pair_counts import PairCounts
from mom_pipeline.core.moments.users import in_first_half
from mom_pipeline.core.types import Csr
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import matrix_as_of

# Made from the moments: users' memberships and values, and parameters that the user had a part in.
DERIVED = (
    "whitening_matrix",
    "whitened_tensor",
    "decomposition",
    "user_personalization",
    "evaluation_metrics",
)


def erase_from_days(warehouse: Warehouse, state: DayState) -> Counter[str]:
    """Bring matrix and moments of every stored day to the rows that are left.

    The user's rows must have left the warehouse before. Once more changes nothing; a day that
    was interrupted, or whose moments have expired, is summed over all its rows, through its anchor.
    """
    counts: Counter[str] = Counter()
    anchors: dict[str, str] = {}
    for day in state.artifacts.days("interaction_matrix"):
        try:
            _erase_from_day(warehouse, state, day, anchors)
            counts["days of matrices and moments"] += 1
        except StaleArtifact:
            counts["days removed that could not be read"] += 1
            state.artifacts.remove("interaction_matrix", day)
    kept = set(state.artifacts.days("interaction_matrix"))
    for day in set(state.artifacts.days("m2_statistics")) - kept:
        state.artifacts.remove("m2_statistics", day)
    for asset in DERIVED:
        for day in state.artifacts.days(asset):
            state.artifacts.remove(asset, day)
            counts["arrays to be computed again"] += 1
    return counts


def _erase_from_day(
    warehouse: Warehouse, state: DayState, day: date, anchors: dict[str, str]
) -> None:
    """Bring a day to the rows that are left. anchors: old versions of anchors -> new ones."""
    stored = state.fitting("m2_statistics", day, with_arrays=False)
    before, version = _stored_rows(state, day)
    matrix = matrix_as_of(warehouse, day)
    X = matrix.interactions
    if before is not None and (before.shape[0] > X.shape[0] or before.shape[1] > X.shape[1]):
        raise StaleArtifact(f"interaction_matrix of {day} is wider than the dictionaries")
    fixed = _erased_anchor(warehouse, state, stored, anchors)
    seen_through = anchors.get(stored.parents["anchor"], stored.parents["anchor"])
    stored = replace(stored, parents={**stored.parents, "anchor": fixed.version})
    anchor = state.anchor_in(stored).with_items(X.shape[1])
    present = stored.parents["interaction_matrix"] == version and seen_through == fixed.version
    sums = _stored_sums(state, day) if present else None
    if before is None or sums is None:
        sums = AnchoredSums.from_rows(X, anchor, in_half=in_first_half(np.arange(X.shape[0])))
    else:
        sums = _without(sums, anchor, before, X)
    pairs = None
    if "pair_steps" in fixed.dense:
        base = PairCounts.from_arrays(fixed.dense)
        pairs = AnchoredPairs(base, base.counted_alike(X) - base)
    written = state.write_matrix(day, X, matrix.last_days, matrix.fingerprint)
    parents = {"interaction_matrix": written.version, "anchor": fixed.version}
    facts = {**stored.metadata, "users": sums.first.n_users}
    state.write_sums(day, sums, pairs, parents, facts, sound=bool(stored.metadata["sound"]))


def _stored_rows(state: DayState, day: date) -> tuple[Csr | None, str]:
    """The rows of a day, and their version; None where those are gone that they are a change of."""
    try:
        return state.matrix(day)
    except StaleArtifact:
        return None, ""


def _stored_sums(state: DayState, day: date) -> AnchoredSums | None:
    """The sums of a day; None where they have expired."""
    try:
        return sums_in(state.fitting("m2_statistics", day))
    except Expired:
        return None


def _erased_anchor(
    warehouse: Warehouse, state: DayState, sums: Artifact, anchors: dict[str, str]
) -> Artifact:
    """The anchor of some sums, with the pairs of the rows that are left; written once."""
    day = date.fromisoformat(sums.metadata["anchor_day"])
    fixed = state.fitting("anchor", day)
    if "pair_steps" in fixed.dense and fixed.version not in anchors.values():
        X = matrix_as_of(warehouse, day).interactions
        base = PairCounts.from_arrays(fixed.dense).counted_alike(X)
        arrays = {**fixed.arrays, **base.as_arrays()}
        written = state.write("anchor", day, arrays, fixed.parents, {})
        anchors[fixed.version] = written.version
        return written
    return fixed


def _without(sums: AnchoredSums, anchor: Anchor, before: Csr, X: Csr) -> AnchoredSums:
    """The sums after the rows changed: old ones subtracted, new ones added."""
    changed = changed_rows(before, X)
    half = in_first_half(changed)
    in_half = np.concatenate([half, half])
    return sums.update(grown(before, X.shape)[changed], X[changed], anchor, in_half=in_half)
