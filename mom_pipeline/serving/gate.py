"""The gate: whether the model of a day may replace the champion.

A new day of data, settings and code as before, takes over unless a check failed: a day unlike the
days before it was excluded by `logs.gate`. Other settings or code pass a paired backtest,

    d = AP of the challenger - AP of the champion, by user, on the same users and days

whose bootstrap interval of mean d must lie above -max_loss times the champion's MAP. A model has
seen the days up to its own, so the model of the same settings of `evaluation.horizon_days` before
is judged on what its users took since. A champion as old as that, or older, answers for itself; the
settings of a younger one, or of one whose items were numbered anew since, are fitted to the rows of
the backtest, and so are settings that were chosen since.

The first model is in use at once, unproven until there are days to judge it on. What a person put
in use stays until a person lifts that.
"""

from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from functools import cached_property

import numpy as np
from scipy import sparse

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import DamagedModel, InvalidSetting, MomError, VisitFailed
from mom_pipeline.core.evaluation.backtest import Backtest, backtest
from mom_pipeline.core.evaluation.metrics import RankingMetrics, nearest_cutoff, paired_interval
from mom_pipeline.core.evaluation.theorem1 import bounds_of
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import IN_MEMORY, DayRows, RowsEngine, Users
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.pipeline.choice import ChosenSettings
from mom_pipeline.pipeline.days import CODE_VERSION, INPUTS, LOGS, Days, NotUsable
from mom_pipeline.serving.registry import ModelRegistry, NoChampion, UnknownVersion
from mom_pipeline.serving.served_model import (
    TREND_DAYS,
    FitFigures,
    Manifest,
    ModelFigures,
    ServedModel,
)
from mom_pipeline.settings import ModelSettings, checked

POPULARITY = "popularity"
# What must have passed its checks before the model of a day can be in use.
_AFTER = ("evaluation_metrics", "promotion", "recommendations", "report")
_CHAIN = [asset for asset in INPUTS if asset not in _AFTER]
_PAIRS_PER_BLOCK = 4_000_000
LEVEL = 0.95


@dataclass(frozen=True)
class Contest:
    """Average precision of the challenger and of its rival, (users,) each; how, in words."""

    rival: str
    challenger_ap: Array
    rival_ap: Array
    how: str


@dataclass(frozen=True)
class Decision:
    """The gate's decision. difference, low, high: of the MAP; None when nothing was compared."""

    passed: bool
    words: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Promoted:
    """What became of a day's model. champion: in use from now on; None when there is none."""

    version: str
    decision: Decision
    champion: str | None
    metrics: dict[str, float]
    removed: list[str]


def evaluated_day(days: Days, day: date) -> date:
    """The day of the model that is backtested in place of a day's own."""
    return days.latest(day - timedelta(days=days.settings.evaluation.horizon_days))


@dataclass(frozen=True)
class Gate:
    """The gate before the model of a day."""

    days: Days
    registry: ModelRegistry
    day: date
    item_ids: Array  # by position, None where an id was erased
    user_ids: Array
    later: Csr  # (N, D) pairs that were delivered since `evaluated_day`
    engine: RowsEngine = IN_MEMORY

    @cached_property
    def backtest(self) -> Backtest | None:
        """Of the model of `evaluated_day`; None when there is none."""
        return self.days.backtest(self.day, evaluated_day(self.days, self.day))

    def store(self) -> str:
        """Store the model of the day as a version and name it; the champion stays."""
        return self.registry.add(self.candidate())

    def promote(self) -> Promoted:
        """Store the model of the day, and let it take over if it passes; NotUsable if unsound."""
        for asset in _CHAIN:
            self.days.usable(asset, self.day)
        challenger, registry = self.candidate(), self.registry
        version, settings = registry.add(challenger), self.days.settings.promotion
        decision = self._decision(version, challenger)
        if decision.passed and settings.enabled:
            registry.promote(version, decision.words)
        elif decision.passed:
            words = f"not promoted: promotion.enabled is false, though it {decision.words}"
            decision = replace(decision, passed=False, words=words)
        removed = registry.remove_old(settings.keep_versions, version)
        metrics = challenger.manifest.metrics
        return Promoted(version, decision, registry.champion_version(), metrics, removed)

    def candidate(self) -> ServedModel:
        """The model of the day as it will be served."""
        days, day, model = self.days, self.day, self.days.model(self.day)
        matrix, fit = days.usable("interaction_matrix", day), days.usable("decomposition", day)
        rows, items, ids = days.rows(day), self.item_ids, self.user_ids
        named = np.array([user is not None for user in ids[: rows.X.shape[0]]], dtype=bool)
        users = np.flatnonzero(named & (np.diff(rows.X.indptr) > 0))
        manifest = Manifest(
            version="",
            day=day.isoformat(),
            code_version=CODE_VERSION,
            data=matrix.inputs[LOGS],
            settings=asdict(days.chosen(day).model),
            parents={"decomposition": fit.version, "interaction_matrix": matrix.version},
            metrics=metrics_of(self.backtest) if self.backtest else {},
        )
        return ServedModel(
            manifest,
            model,
            np.array([item or "" for item in items[: model.n_items]], dtype=object),
            ids[users],
            *_histories(rows, users, self.engine),
            _figures(days, day),
        )

    def contest(self, champion: ServedModel, measured: Backtest) -> Contest:
        """The champion on the users, histories and days of the backtest; see the module."""
        days, cutoffs = self.days, measured.model.cutoffs
        before = evaluated_day(days, self.day)
        users, seen = self.engine.users(days.rows(before)), days.settings.serving.exclude_seen
        ours: Backtest | None = measured

        def refitted(settings: ChosenSettings) -> Backtest | None:
            return backtest(_fitted(settings, users), users, self.later, cutoffs, exclude_seen=seen)

        if days.chosen(self.day).method != days.chosen(before).method:
            ours = refitted(days.chosen(self.day))
        if champion.manifest.day <= before.isoformat() and self._has_the_columns_of(champion):
            rival = backtest(champion.model, users, self.later, cutoffs, exclude_seen=seen)
            how = f"it and the model of {before}, on the days since"
        else:
            rival = refitted(_settings_of(champion))
            how = f"its settings and the new ones, both as of {before}, on the days since"
        if ours is None or rival is None:
            raise InvalidSetting(f"champion and challenger of {self.day} have no user in common")
        return Contest(champion.manifest.version, _ap(ours.model), _ap(rival.model), how)

    def _has_the_columns_of(self, champion: ServedModel) -> bool:
        """Whether items have the positions that they had then; an id may be erased since."""
        pairs = zip(champion.item_ids, self.item_ids, strict=False)
        return all(then == now for then, now in pairs if then and now)

    def _decision(self, version: str, challenger: ServedModel) -> Decision:
        """What the gate says about the model of the day; see the module."""
        if version == self.registry.champion_version():
            return Decision(False, "it is the champion already")
        if broken := _not_finite(challenger):
            return Decision(False, "refused: " + "; ".join(f"{b} is not finite" for b in broken))
        try:
            champion = self.registry.champion()
        except (NoChampion, DamagedModel, UnknownVersion):
            # A champion that cannot be read answers nobody: the next one is the first again.
            if self.backtest is None:
                words = "passed as the first model, unproven: no days to judge it on yet"
                return Decision(True, words)
            ours, theirs = _ap(self.backtest.model), _ap(self.backtest.popularity)
            return self._decide(Contest(POPULARITY, ours, theirs, "the same lists"))
        if self.registry.is_chosen():
            words = (
                f"not promoted: a person put {champion.manifest.version} in use; `mom-pipeline "
                "promote --auto` leaves the choice to the gate again"
            )
            return Decision(False, words)
        return self._against(champion)

    def _against(self, champion: ServedModel) -> Decision:
        theirs, today = champion.manifest, self.day.isoformat()
        if theirs.day > today:
            return Decision(False, f"refused: the champion is of a later day, {theirs.day}")
        if _same_method(champion, self.days.chosen(self.day)):
            corrected = theirs.day == today
            what = "the day's data were corrected" if corrected else "a new day of data"
            return Decision(True, f"passed: {what}, settings and code as before")
        if self.backtest is None and theirs.metrics:
            return Decision(False, "refused: other settings, and no days yet to compare them on")
        if self.backtest is None:
            words = "passed: other settings; neither model has days to judge it on yet"
            return Decision(True, words)
        try:
            return self._decide(self.contest(champion, self.backtest))
        except VisitFailed:
            raise
        except MomError as error:
            return Decision(False, f"refused: it cannot be compared with the champion: {error}")

    def _decide(self, contest: Contest) -> Decision:
        settings = self.days.settings
        rng = np.random.default_rng(settings.model.seed)
        return decide(contest, max_loss=settings.promotion.max_loss, rng=rng)


def decide(contest: Contest, *, max_loss: float, rng: np.random.Generator) -> Decision:
    """Compare the challenger with its rival; the first model, whose rival is popularity, passes."""
    ours, theirs = contest.challenger_ap, contest.rival_ap
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return Decision(False, "refused: the precision of some user is not finite")
    d, low, high = (float(value) for value in paired_interval(ours, theirs, rng, level=LEVEL))
    compared = (
        f"MAP {ours.mean():.4f} against {theirs.mean():.4f} of {contest.rival}, difference "
        f"{d:+.5f} [{low:+.5f}, {high:+.5f}] ({len(theirs):,} users; {contest.how})"
    )
    if contest.rival == POPULARITY:
        doubt = "" if low > 0 else "; not shown to beat popularity"
        return Decision(True, f"passed as the first model: {compared}{doubt}", d, low, high)
    bound = -max_loss * float(theirs.mean())
    # The same lists twice are no loss, even where none is allowed.
    passed = low >= bound
    verdict = "passed" if passed else "refused"
    words = f"{verdict}: {compared}; the interval must not reach below {bound:+.5f}"
    return Decision(passed, words, d, low, high)


def metrics_of(measured: Backtest) -> dict[str, float]:
    """The figures that a version carries, at the cut-off that is shown; finite ones alone."""
    ours, k = measured.model, nearest_cutoff(measured.model.cutoffs)
    values = {
        "cutoff": float(k),
        "users": float(ours.n_users),
        "precision": ours.precision[k],
        "recall": ours.recall[k],
        "map": ours.map[k],
        "ndcg": ours.ndcg[k],
        "popularity_map": measured.popularity.map[k],
    }
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _ap(metrics: RankingMetrics) -> Array:
    return metrics.per_user["map"][:, metrics.cutoffs.index(nearest_cutoff(metrics.cutoffs))]


def _not_finite(challenger: ServedModel) -> list[str]:
    """What speaks against a model whatever it scores: arrays with a number that is not finite."""
    model = challenger.model
    arrays = {
        "O": model.item_probs,
        "pi": model.weights,
        "popularity": model.popularity,
        "a history": challenger.histories.data,
    }
    return [name for name, array in arrays.items() if not np.isfinite(array).all()]


def _histories(rows: DayRows, users: Array, engine: RowsEngine) -> tuple[Csr, Csr]:
    """The rows of some users and their last days, (n, D) each; a block of users at a time."""
    indptr = np.append(0, np.cumsum(np.diff(rows.X.indptr)[users]))
    data = engine.array((int(indptr[-1]),), rows.X.data.dtype)
    items = engine.array((int(indptr[-1]),), rows.X.indices.dtype)
    days = engine.array((int(indptr[-1]),), rows.last_days.data.dtype)
    for block in cut(indptr, _PAIRS_PER_BLOCK, len(users)):
        own, pairs = users[block], slice(indptr[block.start], indptr[block.stop])
        X = rows.X[own]
        data[pairs], items[pairs], days[pairs] = X.data, X.indices, rows.last_days[own].data
    shape = len(users), rows.X.shape[1]
    X, last_days = (sparse.csr_array((d, items, indptr), shape=shape) for d in (data, days))
    return X, last_days


def _figures(days: Days, day: date) -> ModelFigures | None:
    """What a version tells about its fit; None where the sums of the day are gone."""
    try:
        fit, whitening = days.usable("decomposition", day), days.whitening(day)
        anchor, sums = days.moments(day)
        weights = days.arrays("decomposition", day)["weights"]
    except NotUsable:
        return None
    earlier = [d for d in days.computed() if d <= day]
    trend = (_day_figures(days, other) for other in earlier[-TREND_DAYS:])
    return ModelFigures(
        spectrum=tuple(whitening.spectrum.tolist()),
        bounds=bounds_of(anchor.estimator, sums.first, whitening.eigenvalues, weights),
        days=tuple(filter(None, trend)),
        **{name: fit.facts[name] for name in ("residual", "weight_sum", "negative_mass")},
    )


def _day_figures(days: Days, day: date) -> FitFigures | None:
    fit, sums = (days.made.get((asset, day)) for asset in ("decomposition", "m2_statistics"))
    if fit is None or sums is None or "agreement" not in fit.facts:
        return None
    full = str(sums.facts["mode"]).startswith("full")
    return FitFigures(**{**sums.facts, **fit.facts, "day": day.isoformat(), "full": full})


def _same_method(champion: ServedModel, chosen: ChosenSettings) -> bool:
    """Whether the champion was made with the same settings and the present code."""
    ranking = champion.model.pair_ranking
    weights = chosen.ranking if ranking is None else ranking.weights
    same_model = champion.manifest.settings == asdict(chosen.model)
    same_code = champion.manifest.code_version == CODE_VERSION
    return same_model and same_code and weights == chosen.ranking


def _settings_of(champion: ServedModel) -> ChosenSettings:
    """The settings of a champion, as far as this code still has them."""
    known, values = ModelSettings.__dataclass_fields__, champion.manifest.settings
    own = {name: value for name, value in values.items() if name in known}
    settings = checked(ModelSettings, **{**own, "rows": champion.model.rows})
    ranking = champion.model.pair_ranking
    return ChosenSettings(settings, RankingWeights() if ranking is None else ranking.weights)


def _fitted(settings: ChosenSettings, users: Users) -> FittedModel:
    """Fit a model of some settings to the rows of a day in full."""
    model_settings = asdict(settings.model)
    # As a day does that has fewer users or items than components were asked for.
    model_settings["n_components"] = min(settings.model.n_components, *users.shape)
    method = MethodOfMoments(**model_settings, ranking_weights=settings.ranking)
    return method.fit_users(users).fitted
