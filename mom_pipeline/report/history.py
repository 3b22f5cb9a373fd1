"""How the days went, from their manifests alone: no array is read."""

from dataclasses import dataclass
from datetime import date

from mom_pipeline.artifacts.day_state import DayState, Unfit


@dataclass(frozen=True)
class DayHistory:
    """One day of the model.

    full: whether it was computed from all users.  captured: share of the second moment that the
    basis held.  largest_drift: of any component since the day before, in total variation.
    lowest_agreement, mean_agreement: of the halves of the users; the mean is weighted by pi.
    """

    day: date
    full: bool
    changed_users: int
    users: int
    captured: float
    largest_drift: float
    lowest_agreement: float
    mean_agreement: float


def history_until(state: DayState, day: date) -> tuple[DayHistory, ...]:
    """Every stored day up to a day, made with the present settings, in order."""
    found = []
    for other in state.artifacts.days("decomposition"):
        if other > day:
            break
        try:
            model = state.fitting("decomposition", other, with_arrays=False).metadata
            sums = state.fitting("m2_statistics", other, with_arrays=False).metadata
        except Unfit:
            continue
        found.append(
            DayHistory(
                day=other,
                full=str(sums["mode"]).startswith("full"),
                changed_users=int(sums["changed_users"]),
                users=int(sums["users"]),
                captured=float(sums["captured"]),
                largest_drift=float(model["largest_drift"]),
                lowest_agreement=float(model["lowest_agreement"]),
                mean_agreement=float(model["mean_agreement"]),
            )
        )
    return tuple(found)
