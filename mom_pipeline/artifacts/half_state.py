"""The sums over one half of the users, by day: what the trust in a component is measured with."""

from datetime import date, timedelta

from mom_pipeline.artifacts.day_state import DayState, Unfit
from mom_pipeline.artifacts.store import Artifact
from mom_pipeline.core.evaluation.split_half import HalfMoments, half_of, updated_half
from mom_pipeline.core.moments.daily import DayStep
from mom_pipeline.core.types import Csr, Float64

_ASSET, _PARENT = "user_half", "m2_statistics"


def write_half(
    state: DayState, day: date, X: Csr, before: Csr | None, step: DayStep, moments: Artifact
) -> None:
    """Bring the half's sums up to date beside those of everyone, and store them.

    before: yesterday's rows, where the step was taken from them.
    """
    half = _half_of_step(state, day, X, before, step)
    state.write(*half_artifact(day, half, moments))


def half_artifact(
    day: date, half: HalfMoments, moments: Artifact
) -> tuple[str, date, dict[str, Float64], dict[str, str], dict[str, float]]:
    """What `DayState.write` stores of a half: asset, day, arrays, parents, metadata."""
    return (
        _ASSET,
        day,
        {"pairs": half.pairs, "triples": half.triples},
        {_PARENT: moments.version},
        {"pair_weight": half.pair_weight, "triple_weight": half.triple_weight},
    )


def _half_of_step(
    state: DayState, day: date, X: Csr, before: Csr | None, step: DayStep
) -> HalfMoments:
    """A rebuild has the half at hand; later the changed users are enough, given yesterday's.

    Where that is missing, the users of the half are visited.
    """
    if step.state.half is not None:
        return HalfMoments.part_of(step.state.half)
    anchor = step.state.moments.anchor
    try:
        yesterday = read_half(state, day - timedelta(days=1))
    except Unfit:
        return half_of(X, anchor)
    if before is None:
        return half_of(X, anchor)
    return updated_half(yesterday, before, X, step.changed, anchor)


def read_half(state: DayState, day: date) -> HalfMoments:
    """The half's sums of a day, made with its present moments; Unfit when they are not there."""
    found = state.built_on(_ASSET, day, _PARENT)
    weights = found.metadata["pair_weight"], found.metadata["triple_weight"]
    return HalfMoments(found.dense["pairs"], found.dense["triples"], *weights)
