"""The settings of a day: kept from the day before, or chosen anew on the last days of the logs.

After `tuning.every_days` days, once the interactions have grown by a quarter or four times as many
days have passed, the settings that nothing fixes are tried on the last `evaluation.horizon_days`
days: learnt on what came before, asked for what users took then. The model itself is then made from
all rows. With few days or few users to ask nothing is chosen: as many components as N >= K^2 users
support, and weights such that pairs count for as much as they are popular: on no log that was
tried does that rank below popularity.
"""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from mom_pipeline.core.errors import MomError, TooLittleData, VisitFailed
from mom_pipeline.core.moments.users import IN_MEMORY, RowsEngine
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.pipeline.choice import ChosenSettings, weights_of
from mom_pipeline.settings import Settings, TuningSettings
from mom_pipeline.tuning.sweep import Sweep, run_sweep
from mom_pipeline.tuning.validation import Trial, ValidationDays
from mom_pipeline.warehouse.connection import Warehouse

# Days with rows that it takes to choose, users to ask about; components of the smallest log.
_ENOUGH_DAYS, _ENOUGH_USERS, _FEWEST = 8, 100, 4
# What a choice may take; what does not fit is left out, and said.
_SECONDS = 120.0
# What a choice in few seconds leaves as it is: another one costs as much as all the rest.
_NOT_IN_HASTE = ("ranking.user_exponent",)
# What is ranked by until something is chosen, and when nothing is better than popularity.
_UNTIL_CHOSEN = {"ease": 0.0, "low_pass": 0.0, "components": 0.0, "candidate_exponent": 0.0}
# A choice is kept until the interactions have grown by this share, or so many times as many days.
_GROWTH, _LONGEST = 0.25, 4
_POPULARITY = RankingWeights(popularity=1.0, pairs=0.0, ease=0.0, low_pass=0.0, components=0.0)


def settings_of_day(
    warehouse: Warehouse,
    day: date,
    n_users: int,
    n_pairs: int,
    earlier: ChosenSettings | None,
    seconds: float = 0.0,
    engine: RowsEngine = IN_MEMORY,
) -> ChosenSettings:
    """Return the settings that the model of a day is made with.

    n_users, n_pairs: users, and pairs of user and item, as of the day.
    earlier: the settings of the day before; None where there are none to keep.
    seconds: what a choice may take; 0: two minutes.
    engine: who visits the users for what is learnt from all of them.
    """
    settings = warehouse.settings
    if not settings.tuning.every_days:
        return ChosenSettings.as_they_stand(settings)
    if earlier is not None and earlier.chosen_on:
        kept = _kept_because(settings.tuning, day, n_pairs, earlier)
        if kept:
            words = f"kept: chosen on {earlier.chosen_on}, anew {kept}"
            return replace(earlier, evidence={**earlier.evidence, "words": words})
    try:
        chosen = _chosen(warehouse, day, settings, seconds, engine)
        return replace(chosen, evidence={**chosen.evidence, "pairs": n_pairs})
    except VisitFailed:
        raise
    except MomError as reason:
        return _not_chosen(settings, n_users, str(reason))


def _kept_because(tuning: TuningSettings, day: date, n_pairs: int, earlier: ChosenSettings) -> str:
    """Return when an earlier choice is due to be made anew; "" where it is now."""
    age, every = (day - date.fromisoformat(earlier.chosen_on)).days, tuning.every_days
    if 0 <= age < every:
        return f"after {every} days"
    grown = (1 + _GROWTH) * earlier.evidence["pairs"]
    if every <= age < _LONGEST * every and n_pairs < grown:
        return f"with {grown:,.0f} pairs, or after {_LONGEST * every} days"
    return ""


def _chosen(
    warehouse: Warehouse, day: date, settings: Settings, seconds: float, engine: RowsEngine
) -> ChosenSettings:
    horizon = settings.evaluation.horizon_days
    with warehouse.reading() as connection:
        delivered = [one for one in delivery_days(connection) if one <= day]
    if len(delivered) < max(_ENOUGH_DAYS, horizon + 1):
        raise TooLittleData(f"{len(delivered)} days are too few to choose on")
    days = ValidationDays.from_warehouse(warehouse, day - timedelta(days=horizon), day, engine)
    if days.n_users < _ENOUGH_USERS:
        raise TooLittleData(f"{days.n_users} users are too few to choose on")
    sweep = run_sweep(
        days,
        settings.model,
        _until_chosen(settings),
        fixed=(*settings.fixed, *_NOT_IN_HASTE) if seconds else settings.fixed,
        budget_seconds=seconds or _SECONDS,
    )
    choice = sweep.choice_of(settings.model.ranking)
    ranking = choice.ranking_weights or weights_of(settings)
    if choice.map < sweep.popularity and choice.ranking_weights is not None:
        ranking = _POPULARITY
    evidence = _evidence(sweep, choice, days, day)
    return ChosenSettings(choice.model, ranking, day.isoformat(), evidence)


def _evidence(sweep: Sweep, choice: Trial, days: ValidationDays, day: date) -> dict[str, Any]:
    period = f"learnt up to {days.until}, asked about the days up to {day}"
    words = (
        f"chosen among {len(sweep.trials)}: MAP {choice.map:.4f}, Recall@20 {choice.recall:.4f}; "
        f"popularity {sweep.popularity:.4f} ({sweep.n_users:,} users; {period})"
    )
    return {
        "words": words,
        "users": sweep.n_users,
        "map": choice.map,
        "recall": choice.recall,
        "popularity_map": sweep.popularity,
        "left_out": "; ".join(sweep.skipped) or "nothing",
    }


def _not_chosen(settings: Settings, n_users: int, reason: str) -> ChosenSettings:
    model, evidence = settings.model, {"words": f"not chosen: {reason}"}
    if "model.n_components" not in settings.fixed:
        supported = 2 ** ((n_users.bit_length() - 1) // 2)  # the largest with K^2 <= N
        model = replace(model, n_components=min(model.n_components, max(supported, _FEWEST)))
    return ChosenSettings(model, _until_chosen(settings), evidence=evidence)


def _until_chosen(settings: Settings) -> RankingWeights:
    """Return the weights before any choice: those that are fixed, and cautious ones."""
    cautious = {n: v for n, v in _UNTIL_CHOSEN.items() if f"ranking.{n}" not in settings.fixed}
    return replace(weights_of(settings), **cautious)
