"""The gate: whether the model of a day may replace the champion.

Two things can be new about a model, and each is judged in its own way.

**A new day of data**, settings and code as before. The day's rows were compared with the days
before (`logs.gate`): a day that
differs is excluded, so the model has learnt from usual days. It takes over unless a check failed.

**Other settings or other code.** A paired backtest:

    d = AP of the challenger - AP of the champion, by user, on the same users and days

The bootstrap interval of mean d must lie above -max_loss times the champion's MAP, so little
evidence keeps the champion. A model has seen the days up to its own, so it cannot be judged on
them. What can be judged is the model of the same settings of `evaluation.horizon_days` before, on
what its users took since. The champion is asked about the same users, histories and days:

- a champion that is as old as the model of the backtest, or older, answers for itself;
- a younger one has seen some of these days: its settings are fitted to the rows of the backtest
  (in full, so it costs some passes; only after a change of settings).

So are settings that were chosen since the model of the backtest was made.

The first model is in use at once: some answer is better than none. It is unproven until there
are days to judge it on. What a person put in use stays until a person lifts that.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from typing import Any, Generic, TypeVar

import numpy as np
from scipy import sparse

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import DamagedModel, InvalidSetting, MomError, VisitFailed
from mom_pipeline.core.evaluation.backtest import Backtest
from mom_pipeline.core.evaluation.backtest import backtest as backtest_model
from mom_pipeline.core.evaluation.metrics import RankingMetrics, nearest_cutoff, paired_interval
from mom_pipeline.core.evaluation.theorem1 import bounds_of
from mom_pipeline.core.moments.users import IN_MEMORY, DayRows, RowsEngine, UserRows, Users, Visit
from mom_pipeline.core.ranking.lists import HistoryOf
from mom_pipeline.core.ranking.recency import aged
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.pipeline.choice import ChosenSettings
from mom_pipeline.pipeline.days import CODE_VERSION, INPUTS, LOGS, Days, NotUsable
from mom_pipeline.serving.figures import TREND_DAYS, FitFigures, ModelFigures
from mom_pipeline.serving.registry import ModelRegistry, NoChampion, UnknownVersion
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings, checked

POPULARITY = "popularity"
# What must have passed its checks before the model of a day can be in use.
_AFTER = ("evaluation_metrics", "promotion", "recommendations", "report")
_CHAIN = [asset for asset in INPUTS if asset not in _AFTER]
_PAIRS_PER_BLOCK = 4_000_000
Sum = TypeVar("Sum")
LEVEL = 0.95


@dataclass(frozen=True)
class Delivered:
    """What the warehouse tells about a day.

    item_ids, user_ids: by position, None where an id was erased.
    test: (N, D) pairs that were delivered since `evaluated_day`.
    """

    item_ids: Array
    user_ids: Array
    test: Csr


@dataclass(frozen=True)
class Contest:
    """Average precision of the challenger and of its rival, (users,) each, in the same order.

    rival: a version, or POPULARITY.  how: in words, what was compared.
    """

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


def store_day(
    days: Days,
    registry: ModelRegistry,
    day: date,
    delivered: Delivered,
    backtest: Backtest | None,
    engine: RowsEngine = IN_MEMORY,
) -> str:
    """Store the model of a day as a version and name it; the champion stays."""
    return registry.add(candidate(days, day, delivered, backtest, engine))


def promote_day(
    days: Days,
    registry: ModelRegistry,
    day: date,
    delivered: Delivered,
    backtest: Backtest | None,
    engine: RowsEngine = IN_MEMORY,
) -> Promoted:
    """Store the model of a day as a version, and let it take over if the gate lets it pass.

    backtest: of the model of `evaluated_day`, None when there is none.
    Raises NotUsable when a check of the day failed, or it had too little data.
    """
    for asset in _CHAIN:
        days.usable(asset, day)
    challenger = candidate(days, day, delivered, backtest, engine)
    version, settings = registry.add(challenger), days.settings.promotion
    decision = _decision(days, registry, version, challenger, delivered, backtest, engine)
    if decision.passed and settings.enabled:
        registry.promote(version, decision.words)
    elif decision.passed:
        words = f"not promoted: promotion.enabled is false, though it {decision.words}"
        decision = replace(decision, passed=False, words=words)
    removed = registry.remove_old(settings.keep_versions)
    metrics = challenger.manifest.metrics
    return Promoted(version, decision, registry.champion_version(), metrics, removed)


def candidate(
    days: Days,
    day: date,
    delivered: Delivered,
    backtest: Backtest | None,
    engine: RowsEngine = IN_MEMORY,
) -> ServedModel:
    """The model of a day as it will be served."""
    model, matrix = days.model(day), days.usable("interaction_matrix", day)
    decomposition = days.usable("decomposition", day)
    rows, user_ids = days.rows(day), delivered.user_ids
    named = np.array([user is not None for user in user_ids[: rows.X.shape[0]]], dtype=bool)
    users = np.flatnonzero(named & (np.diff(rows.X.indptr) > 0))
    histories = _histories(rows, users, days.half_life(day), engine)
    manifest = Manifest(
        version="",
        day=day.isoformat(),
        code_version=CODE_VERSION,
        data=matrix.inputs[LOGS],
        settings=asdict(days.chosen(day).model),
        parents={"decomposition": decomposition.version, "interaction_matrix": matrix.version},
        metrics=metrics_of(backtest) if backtest else {},
    )
    items = np.array(["" if item is None else item for item in delivered.item_ids], dtype=object)
    figures = figures_of(days, day)
    return ServedModel(manifest, model, items[: model.n_items], user_ids[users], histories, figures)


def figures_of(days: Days, day: date) -> ModelFigures | None:
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
    return FitFigures(
        day=day.isoformat(),
        full=str(sums.facts["mode"]).startswith("full"),
        **{name: sums.facts[name] for name in ("changed_users", "users", "captured_share")},
        **{name: fit.facts[name] for name in ("drift", "agreement", "mean_agreement")},
    )


def _histories(rows: DayRows, users: Array, half_life: float, engine: RowsEngine) -> Csr:
    """The rows of some users as the ranking reads them, (n, D); a block of users at a time."""
    indptr = np.append(0, np.cumsum(np.diff(rows.X.indptr)[users]))
    data = engine.array((int(indptr[-1]),), rows.X.data.dtype)
    items = engine.array((int(indptr[-1]),), rows.X.indices.dtype)
    for block in cut(indptr, _PAIRS_PER_BLOCK, len(users)):
        own, pairs = users[block], slice(indptr[block.start], indptr[block.stop])
        X = aged(rows.X[own], rows.last_days[own], half_life)
        data[pairs], items[pairs] = X.data, X.indices
    return sparse.csr_array((data, items, indptr), shape=(len(users), rows.X.shape[1]))


def metrics_of(backtest: Backtest) -> dict[str, float]:
    """The figures that a version carries, at the cut-off that is shown; finite ones alone."""
    ours, k = backtest.model, nearest_cutoff(backtest.model.cutoffs)
    values = {
        "cutoff": float(k),
        "users": float(ours.n_users),
        "precision": ours.precision[k],
        "recall": ours.recall[k],
        "map": ours.map[k],
        "ndcg": ours.ndcg[k],
        "popularity_map": backtest.popularity.map[k],
    }
    return {name: value for name, value in values.items() if np.isfinite(value)}


def contest_with_popularity(backtest: Backtest) -> Contest:
    """Return the contest of the first model: with popularity, on the same users."""
    ours, theirs = _ap(backtest.model), _ap(backtest.popularity)
    return Contest(POPULARITY, ours, theirs, "the same lists")


def contest_with_champion(
    days: Days,
    day: date,
    champion: ServedModel,
    delivered: Delivered,
    backtest: Backtest,
    engine: RowsEngine = IN_MEMORY,
) -> Contest:
    """The champion on the users, histories and days of the backtest; see the module."""
    before, cutoffs = evaluated_day(days, day), backtest.model.cutoffs
    test, seen = delivered.test, days.settings.serving.exclude_seen
    ours: Backtest | None = backtest

    def refitted(settings: ChosenSettings) -> Backtest | None:
        users = engine.users(days.rows(before))
        history = _fitted(settings, users)
        return backtest_model(history, users, test, cutoffs, exclude_seen=seen)

    if days.chosen(day).method != days.chosen(before).method:
        ours = refitted(days.chosen(day))
    if champion.manifest.day <= before.isoformat():
        columns, width = _columns(champion.item_ids, delivered.item_ids[: test.shape[1]])
        users = MovedItems(engine.users(days.rows(before)), columns, width)
        history = HistoryOf(champion.model, champion.model.half_life)
        later = moved_items(test, columns, width)
        rival = backtest_model(history, users, later, cutoffs, exclude_seen=seen)
        how = f"it and the model of {before}, on the days since"
    else:
        rival = refitted(_settings_of(champion))
        how = f"its settings and the new ones, both as of {before}, on the days since"
    if ours is None or rival is None:
        raise InvalidSetting(f"champion and challenger of {day} have no user in common")
    return Contest(champion.manifest.version, _ap(ours.model), _ap(rival.model), how)


def decide(contest: Contest, *, max_loss: float, rng: np.random.Generator) -> Decision:
    """Compare the challenger with its rival. max_loss: a share of the champion's MAP.

    The first model, whose rival is popularity, passes whatever it scores; the words say it.
    """
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


def _decision(
    days: Days,
    registry: ModelRegistry,
    version: str,
    challenger: ServedModel,
    delivered: Delivered,
    backtest: Backtest | None,
    engine: RowsEngine,
) -> Decision:
    """Return what the gate says about the model of a day; see the module."""
    if version == registry.champion_version():
        return Decision(False, "it is the champion already")
    day = date.fromisoformat(challenger.manifest.day)
    if objections := _objections(challenger):
        return Decision(False, "refused: " + "; ".join(objections))
    try:
        champion = registry.champion()
    except (NoChampion, DamagedModel, UnknownVersion):
        # A champion that cannot be read answers nobody: the next one is the first again.
        if backtest is None:
            return Decision(True, "passed as the first model, unproven: no days to judge it on yet")
        return _decide(days, contest_with_popularity(backtest))
    if refusal := _refusal(registry, champion, day):
        return Decision(False, refusal)
    return _against_champion(days, champion, day, delivered, backtest, engine)


def _against_champion(
    days: Days,
    champion: ServedModel,
    day: date,
    delivered: Delivered,
    backtest: Backtest | None,
    engine: RowsEngine,
) -> Decision:
    if _same_method(champion, days.chosen(day)):
        same_day = champion.manifest.day == day.isoformat()
        what = "the day's data were corrected" if same_day else "a new day of data"
        return Decision(True, f"passed: {what}, settings and code as before")
    if backtest is None and champion.manifest.metrics:
        return Decision(False, "refused: other settings, and no days yet to compare them on")
    if backtest is None:
        return Decision(True, "passed: other settings; neither model has days to judge it on yet")
    try:
        contest = contest_with_champion(days, day, champion, delivered, backtest, engine)
        return _decide(days, contest)
    except VisitFailed:
        raise
    except MomError as error:
        return Decision(False, f"refused: it cannot be compared with the champion: {error}")


def _decide(days: Days, contest: Contest) -> Decision:
    rng = np.random.default_rng(days.settings.model.seed)
    return decide(contest, max_loss=days.settings.promotion.max_loss, rng=rng)


def _refusal(registry: ModelRegistry, champion: ServedModel, day: date) -> str:
    """Why a champion stays, whatever the challenger is; "" when it need not."""
    if registry.is_chosen():
        return (
            f"not promoted: a person put {champion.manifest.version} in use; `mom-pipeline promote "
            "--auto` leaves the choice to the gate again"
        )
    if champion.manifest.day > day.isoformat():
        return f"refused: the champion is of a later day, {champion.manifest.day}"
    return ""


def _objections(challenger: ServedModel) -> list[str]:
    """What speaks against a model whatever it scores: a number that is not finite."""
    model = challenger.model
    arrays = {
        "O": model.item_probs,
        "pi": model.weights,
        "popularity": model.popularity,
        "a history": challenger.histories.data,
    }
    broken = (name for name, array in arrays.items() if not np.isfinite(array).all())
    return [f"{name} is not finite" for name in broken]


def _ap(metrics: RankingMetrics) -> Array:
    return metrics.per_user["map"][:, metrics.cutoffs.index(nearest_cutoff(metrics.cutoffs))]


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


def _fitted(settings: ChosenSettings, users: Users) -> HistoryOf:
    """Fit a model of some settings to the rows of a day in full."""
    model_settings = asdict(settings.model)
    # As a day does that has fewer users or items than components were asked for.
    model_settings["n_components"] = min(settings.model.n_components, *users.shape)
    method = MethodOfMoments(**model_settings, ranking_weights=settings.ranking)
    model = method.fit_users(users).fitted
    return HistoryOf(model, model.half_life)


@dataclass(frozen=True)
class MovedItems:
    """Users whose items have other columns. columns: (D,) of each item.  width: of them all."""

    users: Users
    columns: Array
    width: int

    def visit(
        self, work: Visit[Sum], users: Array, along: Array | Csr | None = None
    ) -> Iterator[Sum]:
        """Yield the results of some users, part by part."""
        return self.users.visit(MovedVisit(work, self.columns, self.width), users, along)


@dataclass(frozen=True)
class MovedVisit(Generic[Sum]):
    """Work on rows whose items have other columns."""

    work: Visit[Sum]
    columns: Array
    width: int

    def __call__(self, rows: UserRows, along: Any) -> Sum:
        X, days = rows.X, rows.last_days
        moved = replace(
            rows,
            X=moved_items(X, self.columns, self.width),
            last_days=None if days is None else moved_items(days, self.columns, self.width),
        )
        return self.work(moved, along)


def _columns(first: Array, ids: Array) -> tuple[Array, int]:
    """Columns for the ids such that those of `first` come first, in its order; and their number."""
    known = {item: column for column, item in enumerate(first) if item}
    columns, width = np.empty(len(ids), dtype=np.int64), len(first)
    for position, item in enumerate(ids):
        column = known.get(item)
        if column is None:
            column, width = width, width + 1
        columns[position] = column
    return columns, width


def moved_items(X: Csr, columns: Array, width: int) -> Csr:
    """Return rows whose items have other columns, (N, width)."""
    moved: Csr = sparse.csr_array((X.data, columns[X.indices], X.indptr), (X.shape[0], width))
    moved.sort_indices()
    return moved
