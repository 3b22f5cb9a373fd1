"""A day's model on its way into use: it becomes a version, and goes through the gate."""

from dataclasses import dataclass
from datetime import date

import numpy as np

from mom_pipeline.artifacts.day_state import DayState, Unfit
from mom_pipeline.core.errors import DamagedModel, MomError
from mom_pipeline.core.evaluation.backtest import Backtest
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.serving.candidate import (
    candidate,
    contest_with_champion,
    contest_with_popularity,
    stand_in,
)
from mom_pipeline.serving.gate import Contest, Decision, decide
from mom_pipeline.serving.registry import ModelRegistry, NoChampion, UnknownVersion
from mom_pipeline.serving.served_model import ServedModel


@dataclass(frozen=True)
class Delivered:
    """What the warehouse tells about a day.

    item_ids, user_ids: by position, None where an id was erased.
    test: (N, D) pairs that were delivered since the day of the stand-in.
    """

    item_ids: Array
    user_ids: Array
    test: Csr


@dataclass(frozen=True)
class Promoted:
    """What became of a day's model. champion: in use from now on; None when there is none."""

    version: str
    decision: Decision
    champion: str | None
    metrics: dict[str, float]
    removed: list[str]


def store_day(state: DayState, registry: ModelRegistry, day: date, delivered: Delivered) -> str:
    """Store the model of a day as a version and name it; the champion stays."""
    found = _stand_in(state, day, delivered)
    return registry.add(candidate(state, day, delivered.item_ids, delivered.user_ids, found))


def promote_day(
    state: DayState, registry: ModelRegistry, day: date, delivered: Delivered
) -> Promoted:
    """Store the model of a day as a version, and let it take over if the gate lets it pass."""
    found = _stand_in(state, day, delivered)
    served = candidate(state, day, delivered.item_ids, delivered.user_ids, found)
    version, before = registry.add(served), registry.champion_version()
    settings = state.settings.promotion
    if version == before:
        decision = Decision(False, "it is the champion already")
    else:
        decision = _decision(state, registry, day, served, delivered, found)
        if decision.passed and settings.enabled:
            registry.promote(version, decision.words)
        elif decision.passed:
            decision = Decision(
                False, f"left out: promotion.enabled is false, though it {decision.words}",
                decision.difference, decision.low, decision.high,
            )  # fmt: skip
    removed = registry.remove_old(settings.keep_versions)
    return Promoted(
        version, decision, registry.champion_version(), served.manifest.metrics, removed
    )


def _stand_in(state: DayState, day: date, delivered: Delivered) -> Backtest | None:
    try:
        return stand_in(state, day, delivered.test)
    except Unfit:
        return None


def _decision(
    state: DayState, registry: ModelRegistry, day: date, served: ServedModel,
    delivered: Delivered, found: Backtest | None,
) -> Decision:  # fmt: skip
    objections = _objections(state, day, served)
    contest: Contest | None = None
    try:
        champion = registry.champion()
    except (NoChampion, DamagedModel, UnknownVersion):
        # A champion that cannot be read answers nobody: the next one starts from popularity.
        contest = contest_with_popularity(found) if found else None
    else:
        if champion.manifest.day > day.isoformat():
            objections.append(f"the champion is of a later day, {champion.manifest.day}")
        elif found and not objections:
            try:
                contest = contest_with_champion(
                    state, day, champion, delivered.item_ids, delivered.test, found
                )
            except MomError as error:
                objections.append(f"it cannot be compared with the champion: {error}")
    rng = np.random.default_rng(state.settings.model.seed)
    return decide(contest, objections, max_loss=state.settings.promotion.max_loss, rng=rng)


def _objections(state: DayState, day: date, served: ServedModel) -> list[str]:
    """What speaks against a model whatever it scores: a failed check, a number not finite."""
    found = []
    try:
        state.require_chain(day)
    except Unfit as reason:
        found.append(str(reason))
    model = served.model
    arrays = {
        "O": model.item_probs,
        "pi": model.weights,
        "popularity": model.popularity,
        "a history": served.histories.data,
    }
    found += [f"{name} is not finite" for name, a in arrays.items() if not np.isfinite(a).all()]
    return found
