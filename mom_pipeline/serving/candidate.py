"""A day's model as a version, and the contest that it has to go through.

A model has seen the days up to its own, so it cannot be judged on them. What can be judged is
its stand-in: the model of the same settings of `evaluation.horizon_days` before, on what its
users took since. The champion is asked about the same users, histories and days:

- a champion that is as old as the stand-in or older answers for itself;
- a younger one has seen some of these days. Where its settings are the challenger's, it has the
  same stand-in, and the difference is 0. Otherwise its settings are fitted to the rows of the
  stand-in's day (in full, so it costs some passes; only after a change of settings).
"""

from dataclasses import asdict
from datetime import date, timedelta

import numpy as np
from scipy import sparse

from mom_pipeline.artifacts.day_state import CODE_VERSION, DayState
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.evaluation.backtest import Foresight, foresight
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.serving.gate import POPULARITY, Contest
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

_CUTOFF = 20


def candidate(
    state: DayState, day: date, item_ids: Array, user_ids: Array, found: Foresight | None
) -> ServedModel:
    """The model of a day as it will be served.

    item_ids, user_ids: by position, None where an id was erased.  found: of its stand-in.
    """
    model, decomposition = state.model(day)
    matrix = state.fitting("interaction_matrix", day)
    X: Csr = sparse.csr_array(matrix.arrays["interactions"])
    named = np.array([user is not None for user in user_ids[: X.shape[0]]], dtype=bool)
    users = np.flatnonzero(named & (np.diff(X.indptr) > 0))
    manifest = Manifest(
        version="",
        day=day.isoformat(),
        code_version=CODE_VERSION,
        data=matrix.parents["raw_logs"],
        settings=asdict(state.settings.model),
        parents={"decomposition": decomposition.version, "interaction_matrix": matrix.version},
        metrics=metrics_of(found) if found else {},
    )
    items = np.array(["" if item is None else item for item in item_ids], dtype=object)
    return ServedModel(manifest, model, items[: model.n_items], user_ids[users], X[users])


def metrics_of(found: Foresight) -> dict[str, float]:
    """The figures that a version carries: of its stand-in, at the cut-off nearest to 20."""
    k, ours = shown_cutoff(found), found.model
    return {
        "cutoff": float(k),
        "users": float(ours.n_users),
        "precision": ours.precision[k],
        "recall": ours.recall[k],
        "map": ours.map[k],
        "ndcg": ours.ndcg[k],
        "popularity_map": found.popularity.map[k],
    }


def shown_cutoff(found: Foresight) -> int:
    """The cut-off nearest to 20."""
    return min(found.model.cutoffs, key=lambda cutoff: abs(cutoff - _CUTOFF))


def stand_in(state: DayState, day: date, test: Csr) -> Foresight | None:
    """How the model of some days ago did since; None when nobody took anything new.

    test: (N', D') what was delivered since. Raises Unfit when there is no such model.
    """
    before = judged_day(state, day)
    model, _ = state.model(before)
    return foresight(model, state.matrix(before)[0], test, state.settings.evaluation.cutoffs)


def judged_day(state: DayState, day: date) -> date:
    """The day of the stand-in."""
    return day - timedelta(days=state.settings.evaluation.horizon_days)


def contest_with_popularity(found: Foresight) -> Contest:
    """For the first model."""
    return Contest(POPULARITY, _ap(found, "model"), _ap(found, "popularity"), "the same lists")


def contest_with_champion(
    state: DayState, day: date, champion: ServedModel, item_ids: Array, test: Csr, found: Foresight
) -> Contest:
    """The champion on the users, histories and days of the stand-in; see the module."""
    before, version = judged_day(state, day), champion.manifest.version
    ours = _ap(found, "model")
    if champion.manifest.day <= before.isoformat():
        train, _ = state.matrix(before)
        ids = item_ids[: test.shape[1]]
        columns, width = _columns(champion.item_ids, ids)
        theirs = foresight(
            champion.model,
            _moved(train, columns, width),
            _moved(test, columns, width),
            found.model.cutoffs,
        )
        how = f"it and the model of {before}, on the days since"
    elif _same_settings(champion, state):
        theirs, how = found, f"both by the model of {before}: the settings are the same"
    else:
        model = _fitted(champion, state.matrix(before)[0])
        theirs = foresight(model, state.matrix(before)[0], test, found.model.cutoffs)
        how = f"its settings and the new ones, both as of {before}, on the days since"
    if theirs is None:
        raise InvalidSetting(f"champion and challenger of {day} have no user in common")
    return Contest(version, ours, _ap(theirs, "model"), how)


def _ap(found: Foresight, name: str) -> Array:
    metrics = found.model if name == "model" else found.popularity
    return metrics.per_user["map"][:, metrics.cutoffs.index(shown_cutoff(found))]


def _same_settings(champion: ServedModel, state: DayState) -> bool:
    ranking = champion.model.pair_ranking
    weights = state.settings.ranking if ranking is None else ranking.weights
    same_model = champion.manifest.settings == asdict(state.settings.model)
    return same_model and weights == state.settings.ranking


def _fitted(champion: ServedModel, X: Csr) -> FittedModel:
    """A model of the champion's settings; InvalidSetting when this code knows them no more."""
    try:
        chosen = ModelSettings(**champion.manifest.settings)
    except InvalidSetting as error:
        raise InvalidSetting(f"the champion's settings are of other code: {error}") from error
    ranking = champion.model.pair_ranking
    weights = RankingWeights() if ranking is None else ranking.weights
    return MethodOfMoments(**asdict(chosen), ranking_weights=weights).fit(X).fitted


def _columns(first: Array, ids: Array) -> tuple[Array, int]:
    """Columns for the ids such that those of `first` come first, in its order; and their number."""
    places = {item: place for place, item in enumerate(first) if item}
    columns, width = np.empty(len(ids), dtype=np.int64), len(first)
    for position, item in enumerate(ids):
        place = places.get(item)
        if place is None:
            place, width = width, width + 1
        columns[position] = place
    return columns, width


def _moved(X: Csr, columns: Array, width: int) -> Csr:
    moved: Csr = sparse.csr_array((X.data, columns[X.indices], X.indptr), (X.shape[0], width))
    moved.sort_indices()
    return moved
