"""The sweep over settings on the same validation days, and the choice among them."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions, MomError, VisitFailed
from mom_pipeline.core.interactions import ROWS, RowsName
from mom_pipeline.core.moments.estimators import EstimatorName
from mom_pipeline.core.ranking.choose import MAX_USERS, choose_weights, given_split
from mom_pipeline.core.ranking.low_pass import LowPass, scaled_pairs
from mom_pipeline.core.ranking.memberships import Personalization, RuleName
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.pipeline.choice import method_of
from mom_pipeline.settings import ESTIMATORS, PERSONALIZATIONS, ModelSettings
from mom_pipeline.tuning.nested import NestedMoments, sizes
from mom_pipeline.tuning.validation import Trial, ValidationDays

# The share of the time that components may take: the weights matter more.
_COMPONENTS_SHARE = 0.4
# Pairs of a user and an item that the choice of weights looks at in a second, at least.
_PAIRS_PER_SECOND = 300_000
_FEWEST_USERS = 50
_UNDEFINED = ("unbiased", "log")

Progress = Callable[[str, float], None]
# An estimator, and what it makes of counts.
Kind = tuple[EstimatorName, RowsName]


@dataclass(frozen=True)
class Sweep:
    """All trials. present: that of the settings as they are; None when they cannot be tried.

    popularity: its MAP on the same days.  skipped: what could not be tried, and why.
    """

    trials: tuple[Trial, ...]
    present: Trial | None
    popularity: float
    n_users: int
    skipped: tuple[str, ...]

    @property
    def choice(self) -> Trial:
        """The best by MAP@20; the present one unless the gain exceeds its standard error."""
        return self._best_of(self.trials)

    def choice_of(self, ranking: str) -> Trial:
        """The same among the trials of one ranking, or among all where there are none of it."""
        own = tuple(trial for trial in self.trials if trial.model.ranking == ranking)
        return self._best_of(own or self.trials)

    def _best_of(self, trials: Sequence[Trial]) -> Trial:
        best = max(trials, key=lambda trial: trial.map)
        if self.present is None:
            return best
        gain, error = best.gain_over(self.present)
        return best if gain > error else self.present


@dataclass(frozen=True)
class _Plan:
    """What is tried, from when on, and for how long.

    model, weights: the present ones.  fixed: settings that are not for choice.
    """

    days: ValidationDays
    model: ModelSettings
    weights: RankingWeights
    fixed: Collection[str]
    budget_seconds: float
    progress: Progress
    begin: float = field(default_factory=time.monotonic)
    known: dict[tuple[float, float], LowPass] = field(default_factory=dict)

    @property
    def kinds(self) -> list[Kind]:
        """The present one first, then those of the present rows, distinct draws last.

        Without repeated pairs all rows are the same; logarithms are no events to draw.
        """
        own, repeats = _kind(self.model), self.days.train.data.max(initial=0) > 1
        names = [own[0]] if "model.estimator" in self.fixed else ESTIMATORS
        rows = ROWS if repeats and "model.rows" not in self.fixed else [own[1]]
        kinds = [(name, one) for one in rows for name in names if (name, one) != _UNDEFINED]
        return sorted(
            kinds, key=lambda kind: (kind != own, kind[1] != own[1], kind[0] == "unbiased")
        )

    @property
    def rules(self) -> Sequence[RuleName]:
        own = "model.personalization" in self.fixed
        return (self.model.personalization,) if own else PERSONALIZATIONS

    @property
    def fixed_weights(self) -> dict[str, float]:
        return {n: v for n, v in asdict(self.weights).items() if f"ranking.{n}" in self.fixed}

    def low_pass(self, user_exponent: float, scaling: float) -> LowPass:
        """The low-pass part of the rows that are learnt from, made once."""
        key = user_exponent, scaling
        if key not in self.known:
            rng = np.random.default_rng(self.model.seed)
            pairs = scaled_pairs(self.days.everyone, user_exponent, scaling)
            self.known[key] = LowPass.from_pairs(pairs, rng)
        return self.known[key]

    def low_pass_of(self, weights: RankingWeights) -> LowPass | None:
        if not weights.low_pass:
            return None
        return self.low_pass(weights.user_exponent, weights.low_pass_scaling)

    @property
    def seconds_left(self) -> float:
        return self.budget_seconds - (time.monotonic() - self.begin)

    def is_over(self, share: float) -> bool:
        """Tell whether a share of the time is used up."""
        return self.seconds_left < (1 - share) * self.budget_seconds


def run_sweep(
    days: ValidationDays,
    model: ModelSettings,
    weights: RankingWeights,
    *,
    wanted: Sequence[int] = (),
    fixed: Collection[str] = (),
    budget_seconds: float = float("inf"),
    progress: Progress = lambda text, share: None,
) -> Sweep:
    """Try K, estimator, rows, personalization and ranking on what users took later.

    One pass over the pairs and one over the triples for every estimator and kind of rows,
    whatever the number of K; the rules of personalization share the components. The weights of
    the three-moment ranking are chosen for the best components, on the same users.
    fixed: settings that are not for choice, such as "model.estimator".
    budget_seconds: what does not fit is left out, and named in `Sweep.skipped`.
    """
    plan = _Plan(days, model, weights, fixed, budget_seconds, progress)
    ks = _sizes_to_try(plan, wanted)
    nested, trials, skipped = _all_kinds(plan, ks)
    skipped = _dropped(plan, wanted) + skipped
    if not trials:
        raise InvalidInteractions(f"no setting could be tried: {'; '.join(skipped)}")
    best = max(trials, key=lambda trial: trial.map)
    progress("weights of the three moments", len(nested) / (len(nested) + 1))
    if "model.ranking" not in fixed or model.ranking == "three-moment":
        ranked, left_out = _three_moment_trials(plan, nested[_kind(best.model)], best.model)
        trials += ranked
        skipped += left_out
    present = None
    if _kind(model) in nested:
        present = _present_trial(plan, nested[_kind(model)])
        others = (t for t in trials if t.settings() != present.settings())
        trials = [present, *others]
    return Sweep(tuple(trials), present, best.popularity, len(best.ap), tuple(skipped))


def _all_kinds(
    plan: _Plan, ks: Sequence[int]
) -> tuple[dict[Kind, NestedMoments], list[Trial], list[str]]:
    """Try every estimator and kind of rows: their moments, the trials, and what was left out."""
    nested: dict[Kind, NestedMoments] = {}
    trials: list[Trial] = []
    skipped: list[str] = []
    n_parts = len(plan.kinds) + 1
    for done, kind in enumerate(plan.kinds):
        (name, rows), words = kind, "{!r} of {} rows".format(*kind)
        if trials and plan.is_over(_COMPONENTS_SHARE):
            skipped.append(f"no time was left for {words}")
            continue
        plan.progress(f"{words}: moments", done / n_parts)
        try:
            seed = plan.model.seed
            nested[kind] = NestedMoments.from_users(plan.days.everyone, name, rows, max(ks), seed)
        except VisitFailed:
            raise
        except MomError as error:
            skipped.append(str(error))
            continue
        model = replace(plan.model, estimator=name, rows=rows)
        for number, k in enumerate(supported := [k for k in ks if k <= nested[kind].supported]):
            if trials and plan.is_over(_COMPONENTS_SHARE):
                skipped.append(f"no time was left for {words} with K = {k} and more")
                break
            share = (done + number / len(supported)) / n_parts
            plan.progress(f"{words}: K = {k}", share)
            trials += _component_trials(plan, nested[kind], model, k)
    return nested, trials, skipped


def _kind(model: ModelSettings) -> Kind:
    return model.estimator, model.rows


def _sizes_to_try(plan: _Plan, wanted: Sequence[int]) -> list[int]:
    model, (most, n_users) = plan.model, _most_components(plan)
    if "model.n_components" in plan.fixed:
        return [min(model.n_components, most)]
    ks = list(sizes(most, n_users, model.n_components, wanted))
    if not ks:
        raise InvalidInteractions(
            f"none of the K to try is at most {most}, which {n_users} users and their items "
            "support; choose smaller ones"
        )
    return ks


def _most_components(plan: _Plan) -> tuple[int, int]:
    """Return the largest K that the rows support, and how many users have any."""
    days = plan.days
    n_users = int((np.diff(days.train.indptr) > 0).sum())
    return min(n_users, int((days.item_users > 0).sum())), n_users


def _dropped(plan: _Plan, wanted: Sequence[int]) -> list[str]:
    """Say which of the K that were asked for the rows cannot support."""
    most, n_users = _most_components(plan)
    beyond = sorted({k for k in wanted if k > most})
    if not beyond:
        return []
    shown = ", ".join(f"{k:,}" for k in beyond)
    return [f"K = {shown}: more than {most:,}, which {n_users:,} users and their items support"]


def _component_trials(
    plan: _Plan, moments: NestedMoments, model: ModelSettings, k: int
) -> list[Trial]:
    """One K with every rule of personalization."""
    trials = []
    fitted = moments.model(k, Personalization.from_settings(method_of(model)))
    for rule in plan.rules:
        tried = replace(model, n_components=k, personalization=rule, ranking="components")
        own = replace(fitted, personalization=Personalization.from_settings(method_of(tried)))
        trials.append(plan.days.trial(tried, None, own))
    return trials


def _three_moment_trials(
    plan: _Plan, moments: NestedMoments, best: ModelSettings
) -> tuple[list[Trial], list[str]]:
    """The three-moment ranking with the present weights, and with weights chosen for it."""
    days, k, D = plan.days, best.n_components, plan.days.train.shape[1]
    fitted = moments.model(k, Personalization.from_settings(method_of(best)))
    tried = replace(best, ranking="three-moment")
    weights = [plan.weights]
    n_users = min(MAX_USERS, int(min(plan.seconds_left, 1e6) * _PAIRS_PER_SECOND / D))
    left_out = []
    if n_users < _FEWEST_USERS:
        left_out = [f"no time was left for the weights of the ranking over {D:,} items"]
    else:
        rng = np.random.default_rng(best.seed)
        asked = days.asked
        split = given_split(
            asked.X,
            days.test[asked.positions][:, :D],
            rng,
            max_users=n_users,
            exclude_seen=days.exclude_seen,
            last_days=asked.last_days,
        )
        split = replace(split, everyone=days.everyone)
        exponent = plan.fixed_weights.get("user_exponent")
        if exponent is not None:
            split = replace(split, user_exponents=(exponent,))
        fixed = plan.fixed_weights
        choice = choose_weights(split, plan.low_pass, fitted.component_scores, fixed=fixed)
        weights.append(choice.weights)
    trials = [
        days.trial(tried, w, days.ranked(fitted, plan.low_pass_of(w), w))
        for w in dict.fromkeys(weights)
    ]
    return trials, left_out


def _present_trial(plan: _Plan, moments: NestedMoments) -> Trial:
    """Return the trial of the settings as they are."""
    days, model, weights = plan.days, plan.model, plan.weights
    k = min(model.n_components, moments.supported)
    fitted = moments.model(k, Personalization.from_settings(method_of(model)))
    if model.ranking == "components":
        return days.trial(model, None, fitted)
    return days.trial(model, weights, days.ranked(fitted, plan.low_pass_of(weights), weights))
