"""The data of the page of a day, gathered from the warehouse and the artifacts."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from mom_pipeline.artifacts.day_artifacts import CODE_VERSION, StaleArtifact
from mom_pipeline.artifacts.day_state import DayState, item_probs_in
from mom_pipeline.artifacts.store import Artifact
from mom_pipeline.artifacts.timings import seconds_of
from mom_pipeline.catalogue import Catalogue
from mom_pipeline.comparison.results import Comparison, newest_until, versions
from mom_pipeline.core.evaluation.drift import drift
from mom_pipeline.core.evaluation.theorem1 import Bounds, bounds_of
from mom_pipeline.core.ranking.memberships import posterior_entropy
from mom_pipeline.core.types import Array, Float64
from mom_pipeline.logs.ledger import LedgerEntry, deliveries_until
from mom_pipeline.report.people import (
    Change,
    ListUse,
    Person,
    change_since_in_use,
    list_use,
    people_of,
)
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.dictionaries import ids_of
from mom_pipeline.warehouse.evaluations import MetricsRow, metrics_until

TOP_ITEMS = 8
ERASED = "(erased)"
_LIBRARIES = ("mom-pipeline", "numpy", "scipy", "duckdb", "dagster", "matplotlib", "implicit")


@dataclass(frozen=True)
class Component:
    """One component of the model. drift: since the day before, None without one."""

    weight: float
    agreement: float
    drift: float | None
    top_items: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class DayHistory:
    """One day of the model, from its manifests.

    full: computed from all users.  captured_share: of the second moment, by the basis.
    largest_drift: of any component since the day before, in total variation.
    lowest_agreement, mean_agreement: of two halves of the users; the mean is weighted by pi.
    """

    day: date
    full: bool
    changed_users: int
    users: int
    captured_share: float
    largest_drift: float
    lowest_agreement: float
    mean_agreement: float


@dataclass(frozen=True)
class ReportData:
    """The data of one day.

    spectrum: all eigenvalues of M2 inside the span, largest first.
    entropy: bits, one for every user with a history; None where memberships are missing.
    bounds: None where Theorem 1 is about another model.
    metrics: every evaluation up to the day.  comparison: the newest up to the day.
    list_use: None where lists of the day are no longer kept.  change: since the model in use.
    """

    day: date
    settings: Settings
    n_users: int
    n_items: int
    n_pairs: int
    spectrum: Float64
    components: tuple[Component, ...]
    model: dict[str, Any]
    bounds: Bounds | None
    entropy: Float64 | None
    history: tuple[DayHistory, ...]
    deliveries: tuple[LedgerEntry, ...]
    metrics: tuple[MetricsRow, ...]
    comparison: Comparison | None
    seconds: dict[str, float]
    versions: dict[str, str]
    people: tuple[Person, ...] = ()
    list_use: ListUse | None = None
    change: Change | None = None


def gather(settings: Settings, day: date) -> ReportData:
    """Read all data of a day. Raises StaleArtifact with the reason when the day has no model."""
    state, warehouse = DayState(settings), Warehouse(settings)
    model = state.built_on("decomposition", day, "whitened_tensor")
    whitening = state.fitting("whitening_matrix", day)
    X = state.rows(day).X
    sizes = np.diff(X.indptr)
    item_users = state.moments(day)[1].first.item_users
    with warehouse.reading() as connection:
        items = np.argsort(-item_probs_in(model), axis=0, kind="stable")[:TOP_ITEMS]
        ids = ids_of(connection, "item", np.unique(items))
        catalogue = Catalogue.open(settings.data_dir)
        labels = {position: catalogue.label(item) for position, item in ids.items()}
        deliveries = deliveries_until(connection, day)
        metrics = metrics_until(connection, day)
        people = people_of(connection, day, catalogue)
        use = list_use(connection, day, item_users)
        change = change_since_in_use(connection, settings, day)
    return ReportData(
        day=day,
        settings=settings,
        n_users=int((sizes > 0).sum()),
        n_items=int((item_users > 0).sum()),
        n_pairs=int(X.nnz),
        spectrum=whitening.dense["spectrum"],
        components=_components(state, day, model, items, labels),
        model=model.metadata,
        bounds=_bounds(state, day, model),
        entropy=_entropy(state, day, sizes > 0),
        history=history_until(state, day),
        deliveries=tuple(deliveries),
        metrics=tuple(metrics),
        comparison=newest_until(settings.comparisons_dir, day),
        seconds=seconds_of(settings.data_dir, day),
        versions={"code of the arrays": CODE_VERSION, **versions(_LIBRARIES)},
        people=people,
        list_use=use,
        change=change,
    )


def _components(
    state: DayState, day: date, model: Artifact, items: Array, labels: dict[int, str]
) -> tuple[Component, ...]:
    """Return the components. items: (at most 8, K), the most probable of each."""
    O, pi = item_probs_in(model), model.dense["weights"]
    try:
        before = item_probs_in(state.fitting("decomposition", state.day_before(day)))
        moved: list[float | None] = [float(value) for value in drift(O, before)]
    except StaleArtifact:
        moved = [None] * len(pi)
    agreement = model.metadata["agreement"]
    return tuple(
        Component(
            weight=float(pi[k]),
            agreement=float(agreement[k]),
            drift=moved[k],
            top_items=tuple(
                (labels.get(int(y), ERASED), float(O[y, k])) for y in items[:, k] if O[y, k] > 0
            ),
        )
        for k in range(len(pi))
    )


def _bounds(state: DayState, day: date, model: Artifact) -> Bounds | None:
    anchor, sums, _ = state.moments(day)
    whitening, _ = state.whitening(day)
    weights, delta = model.dense["weights"], state.settings.model.delta
    return bounds_of(anchor.estimator, sums.first, whitening.eigenvalues, weights, delta)


def _entropy(state: DayState, day: date, with_history: Array) -> Float64 | None:
    try:
        posteriors = state.built_on("user_personalization", day, "interaction_matrix")
    except StaleArtifact:
        return None
    return posterior_entropy(posteriors.dense["memberships"])[with_history]


def history_until(state: DayState, day: date) -> tuple[DayHistory, ...]:
    """Return every stored day up to a day that was made with the present settings, in order."""
    days = [other for other in state.artifacts.days("decomposition") if other <= day]
    return tuple(entry for entry in (_history(state, other) for other in days) if entry)


def _history(state: DayState, day: date) -> DayHistory | None:
    """Return one day from its manifests alone: no array is read."""
    try:
        model = state.fitting("decomposition", day, with_arrays=False).metadata
        sums = state.fitting("m2_statistics", day, with_arrays=False).metadata
    except StaleArtifact:
        return None
    return DayHistory(
        day=day,
        full=str(sums["mode"]).startswith("full"),
        changed_users=int(sums["changed_users"]),
        users=int(sums["users"]),
        captured_share=float(sums["captured_share"]),
        largest_drift=float(model["largest_drift"]),
        lowest_agreement=float(model["lowest_agreement"]),
        mean_agreement=float(model["mean_agreement"]),
    )
