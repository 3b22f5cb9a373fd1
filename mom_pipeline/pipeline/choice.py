"""The settings that the model of a day is made with: kept from the day before, or chosen anew.

Two choices, neither of which depends on a clock. The weights of the ranking are learnt from up to
five windows of `evaluation.horizon_days` days before the day (`core.ranking.learning`). K and the
estimator, which do not rank, are those under which what users took in the newest window is most
likely given their memberships. What the settings file names is not for choice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from typing import Any, Self

import numpy as np

from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.algorithm.whitening import whiten
from mom_pipeline.core.errors import MomError, VisitFailed
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import RowsName, resized
from mom_pipeline.core.model import MethodOfMoments
from mom_pipeline.core.moments.days import MomentSettings, fix_anchor, sum_users
from mom_pipeline.core.moments.estimators import Estimator, EstimatorName
from mom_pipeline.core.moments.users import (
    IN_MEMORY,
    DayRows,
    RowsEngine,
    Users,
    UsersInMemory,
)
from mom_pipeline.core.ranking.learning import Learnt, Window, enough, learn_weights
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.score import RankingWeights, weights_from
from mom_pipeline.core.types import Csr
from mom_pipeline.settings import ModelSettings, Settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import delivered_pairs, matrix_as_of

# A choice is made anew once the interactions have grown by a half; after `tuning.every_days` days,
# once they have grown by a quarter; and after four times as many days.
_BY_HALF, _GROWN, _LONGEST = 1.5, 1.25, 4
# Components of the smallest log; users whose likelihood decides about K; estimators with the rows
# that are their own, the default first.
_FEWEST, _LIKELIHOOD_USERS = 4, 2000
_KINDS: tuple[tuple[EstimatorName, RowsName], ...] = (
    ("balanced", "binary"),
    ("paper", "binary"),
    ("unbiased", "counts"),
)


def stated_weights(settings: Settings) -> RankingWeights:
    """Return what ranks where nothing is learnt: the weights of `[ranking]` and the library's."""
    given: dict[str, Any] = {name: (v, 0.0) for name, v in settings.ranking.weights}
    return replace(RankingWeights(), **given)


def method_of(model: ModelSettings) -> MethodOfMoments:
    """Return the method of `[model]`; what has no key there is as in the library."""
    return MethodOfMoments(**asdict(model))


@dataclass(frozen=True)
class ChosenSettings:
    """The method of a day."""

    model: ModelSettings
    ranking: RankingWeights
    chosen_on: str = ""  # the day (ISO) of the choice, "" for none
    # what the choice rests on, plain values
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def as_they_stand(cls, settings: Settings) -> Self:
        return cls(settings.model, stated_weights(settings))

    @property
    def method(self) -> tuple[ModelSettings, RankingWeights]:
        """What decides the model, without when and why it was chosen."""
        return self.model, self.ranking

    def same_moments(self, other: Self) -> bool:
        """Tell whether both see the rows through the same moments."""
        names = ("estimator", "rows", "n_components", "ranking")
        return all(getattr(self.model, name) == getattr(other.model, name) for name in names)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` reads them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        model, ranking = ModelSettings(**values["model"]), weights_from(values["ranking"])
        return cls(model, ranking, values["chosen_on"], values["evidence"])


def settings_of_day(
    warehouse: Warehouse,
    day: date,
    n_users: int,
    n_interactions: int,
    earlier: ChosenSettings | None,
    engine: RowsEngine = IN_MEMORY,
) -> ChosenSettings:
    """Return the settings that the model of a day is made with.

    n_users, n_interactions: as of the day.  earlier: the settings of the day before, or None.
    engine: who visits the users for what is learnt from all of them.
    """
    settings = warehouse.settings
    if not settings.tuning.every_days:
        return ChosenSettings.as_they_stand(settings)
    if earlier is not None and earlier.chosen_on:
        due = _due(settings.tuning.every_days, day, n_interactions, earlier)
        if due:
            words = f"kept: chosen on {earlier.chosen_on}, anew {due}"
            return replace(earlier, evidence={**earlier.evidence, "words": words})
    windows = list(windows_before(warehouse, day, engine))
    if not windows:
        return _not_chosen(settings, n_users)
    before = None if earlier is None or not earlier.chosen_on else earlier.ranking
    return chosen_on(windows, settings, day, n_interactions, before)


def chosen_on(
    windows: list[Window],
    settings: Settings,
    day: date,
    n_interactions: int = 0,
    earlier: RankingWeights | None = None,
) -> ChosenSettings:
    """Choose on windows, the newest first. earlier: weights that stay where they are better."""
    stated = stated_weights(settings)
    learnt = Learnt(stated, 0, 0.0, 0.0)
    if settings.ranking.learn and settings.model.ranking == "three-moment":
        learnt = learn_weights(
            windows,
            exclude_seen=settings.serving.exclude_seen,
            penalty=settings.ranking.penalty,
            stated=stated,
            fixed=dict(settings.ranking.weights),
            earlier=earlier,
            seed=settings.model.seed,
        )
    trials = list(likelihoods(windows[0], settings))
    model = settings.model
    if trials:
        best = max(trials, key=lambda trial: trial["likelihood"])
        own = {name: best[name] for name in ("n_components", "estimator", "rows")}
        model = replace(model, **own)
    words = (
        f"learnt from {learnt.n_users:,} users: nDCG@20 among candidates {learnt.ndcg:.4f}, with "
        f"the stated weights {learnt.ndcg_stated:.4f}"
    )
    if learnt.kept:
        words = f"the weights of before stay, as better on the newest days; {words}"
    evidence = {
        "words": words,
        "users": learnt.n_users,
        "ndcg": learnt.ndcg,
        "ndcg_stated": learnt.ndcg_stated,
        "interactions": n_interactions,
        "trials": trials,
    }
    return ChosenSettings(model, learnt.weights, day.isoformat(), evidence)


def windows_before(
    warehouse: Warehouse, day: date, engine: RowsEngine = IN_MEMORY, horizon: int = 0
) -> Iterator[Window]:
    """Yield the windows before a day, the newest first, as far as somebody can be asked in them.

    In the first days, without any, the newest part of what there is.
    horizon: days of each; 0 for `evaluation.horizon_days`.
    """
    windows = list[tuple[int, int]]()
    length = timedelta(days=horizon or warehouse.settings.evaluation.horizon_days)
    while not enough(windows):
        last = day - len(windows) * length
        matrix = matrix_as_of(warehouse, last - length, engine.array)
        later = delivered_pairs(warehouse, last - length, last, engine.array)
        X, days = matrix.interactions, matrix.last_days
        # What was new then, users and items, is not to be found by anybody.
        later = resized(later[: X.shape[0], : X.shape[1]], X.shape)
        asked = int(((np.diff(later.indptr) > 0) & (np.diff(X.indptr) > 0)).sum())
        windows.append((asked, X.nnz))
        if not asked:
            if len(windows) == 1:
                yield from _first_days(warehouse, day)
            return
        yield Window(X, later, days, engine.users(DayRows(X, days, matrix.fingerprint)))


def _first_days(warehouse: Warehouse, day: date) -> Iterator[Window]:
    """Yield what there is up to a day, of which the newest fifth is hidden, or a random one."""
    matrix, rng = matrix_as_of(warehouse, day), np.random.default_rng(warehouse.settings.model.seed)
    if matrix.interactions.nnz:
        window = Window.within(matrix.interactions, rng, matrix.last_days)
        if window is not None:
            yield replace(window, everyone=UsersInMemory(window.X, window.last_days))


def likelihoods(window: Window, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield K, estimator and rows with the mean log-likelihood of what users took later.

    The moments of an estimator are summed once, through an anchor as wide as the largest K.
    """
    users = window.everyone
    rng = np.random.default_rng(settings.model.seed)
    asked, later = window.asked(_LIKELIHOOD_USERS, rng, exclude_seen=False)
    if users is None or not len(asked):
        return
    X = window.X[asked]
    for estimator, rows in _kinds(settings):
        try:
            for model in _nested(users, estimator, rows, settings):
                yield {
                    "n_components": len(model.weights),
                    "estimator": estimator,
                    "rows": rows,
                    "likelihood": _likelihood(model, X, later),
                }
        except VisitFailed:
            raise
        except MomError:  # too few events for its triples, or users for its components
            continue


def _kinds(settings: Settings) -> list[tuple[EstimatorName, RowsName]]:
    model = settings.model
    if "model.estimator" in settings.fixed or "model.rows" in settings.fixed:
        return [(model.estimator, model.rows)]
    return list(_KINDS)


def _nested(
    users: Users, name: EstimatorName, rows: RowsName, settings: Settings
) -> Iterator[FittedModel]:
    """Yield the models of every K to try, from the same sums."""
    model, sizes = settings.model, _sizes(users, settings)
    estimator = Estimator.from_name(name, rows=rows)
    moments = MomentSettings(estimator, max(sizes), max(sizes), model.seed)
    anchor = fix_anchor(users, moments)
    sums = sum_users(users, anchor, moments)
    supported = whiten(sums, max(sizes), dtype=anchor.basis.dtype).n_components
    for K in (K for K in sizes if supported >= K):
        components = decompose(anchor, sums, DecomposeSettings(K, seed=model.seed))
        yield FittedModel(
            item_probs=components.item_probs,
            weights=components.weights,
            popularity=sums.first.popularity,
            personalization=Personalization.from_settings(method_of(model)),
            rows=rows,
        )


def _sizes(users: Users, settings: Settings) -> list[int]:
    """The K to try: powers of two up to sqrt(users), or the one that is fixed."""
    most = min(users.shape)
    if "model.n_components" in settings.fixed:
        return [min(settings.model.n_components, most)]
    return [2**n for n in range(2, 8) if 4**n <= users.shape[0] and 2**n <= most] or [1]


def _likelihood(model: FittedModel, X: Csr, later: Csr) -> float:
    """Return the mean over users of the mean log P[y | u] of what they took later."""
    known = model.popularity[later.indices] > 0
    owners = np.repeat(np.arange(later.shape[0]), np.diff(later.indptr))[known]
    P, O = model.memberships(X), model.smoothed_item_probs
    logs = np.log(np.einsum("ek,ek->e", P[owners], O[later.indices[known]]).astype(np.float64))
    n = np.bincount(owners, minlength=later.shape[0])
    sums = np.bincount(owners, weights=logs, minlength=later.shape[0])
    return float((sums[n > 0] / n[n > 0]).mean()) if n.any() else -np.inf


def _due(every: int, day: date, n_interactions: int, earlier: ChosenSettings) -> str:
    """Return when an earlier choice is due to be made anew; "" where it is now."""
    age = (day - date.fromisoformat(earlier.chosen_on)).days
    before = max(int(earlier.evidence["interactions"]), 1)
    if age < 0 or age >= _LONGEST * every or n_interactions >= _BY_HALF * before:
        return ""
    if age < every:
        return f"after {every} days, or with {_BY_HALF * before:,.0f} interactions"
    if n_interactions < _GROWN * before:
        return f"with {_GROWN * before:,.0f} interactions, or after {_LONGEST * every} days"
    return ""


def _not_chosen(settings: Settings, n_users: int) -> ChosenSettings:
    model = settings.model
    evidence = {"words": "the stated weights: no later days to learn from yet"}
    if "model.n_components" not in settings.fixed:
        supported = 2 ** ((n_users.bit_length() - 1) // 2)  # the largest with K^2 <= N
        model = replace(model, n_components=min(model.n_components, max(supported, _FEWEST)))
    return ChosenSettings(model, stated_weights(settings), evidence=evidence)
