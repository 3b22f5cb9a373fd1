"""The sweep over settings on the same validation days, and the choice among them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions, MomError
from mom_pipeline.core.evaluation.backtest import backtest
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.interactions import grown
from mom_pipeline.core.ranking.choose import choose_weights, given_split
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.settings import ESTIMATORS, PERSONALIZATIONS, ModelSettings
from mom_pipeline.tuning.nested import NestedMoments, sizes

CUTOFF = 20
# Users to ask about: more cost time, fewer leave the choice to chance.
MAX_USERS = 3000

Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class Trial:
    """One setting on the validation days. ap: (users,) average precision of each.

    ranking_weights: of the three-moment ranking; None where the components alone rank.
    popularity: MAP of popularity for the same users.
    """

    model: ModelSettings
    ranking_weights: RankingWeights | None
    map: float
    recall: float
    ap: Array
    popularity: float = float("nan")

    def gain_over(self, other: "Trial") -> tuple[float, float]:
        """The mean difference of the average precision, and its standard error."""
        d = self.ap - other.ap
        return float(d.mean()), float(d.std() / np.sqrt(len(d)))

    def settings(self) -> dict[str, Any]:
        """What would be written, as `section.key` -> value."""
        keys = ("n_components", "estimator", "personalization", "ranking")
        values = {f"model.{key}": getattr(self.model, key) for key in keys}
        if self.ranking_weights is not None:
            values |= {f"ranking.{k}": v for k, v in asdict(self.ranking_weights).items()}
        return values


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
        best = max(self.trials, key=lambda trial: trial.map)
        if self.present is None:
            return best
        gain, error = best.gain_over(self.present)
        return best if gain > error else self.present


@dataclass(frozen=True)
class _Days:
    """What was taken up to a day, (N, D), and what some users took after it, (N', D')."""

    train: Csr
    test: Csr

    def trial(
        self, settings: ModelSettings, weights: RankingWeights | None, fitted: FittedModel
    ) -> Trial:
        """Measure a model. settings, weights: what it was made with."""
        measured = backtest(fitted, self.train, self.test, (CUTOFF,))
        if measured is None:
            raise InvalidInteractions(
                "no user with a history took anything new on the validation days"
            )
        ours = measured.model
        means = ours.map[CUTOFF], ours.recall[CUTOFF]
        ap = ours.per_user["map"][:, 0]
        return Trial(settings, weights, *means, ap, measured.popularity.map[CUTOFF])


def run_sweep(
    train: Csr,
    test: Csr,
    model: ModelSettings,
    weights: RankingWeights,
    *,
    wanted: Sequence[int] = (),
    progress: Progress = lambda text, share: None,
) -> Sweep:
    """Try K, estimator, personalization and ranking on what users took later.

    train: (N, D) rows up to a day.  test: (N', D') what was delivered after it.
    One pass over the pairs and one over the triples for every estimator, whatever the number
    of K; the rules of personalization share the components. The weights of the three-moment
    ranking are chosen for the best components, on the same users.
    """
    days = _Days(train, _some_users(train, test, model.seed))
    ks = _sizes_to_try(train, model, wanted)
    nested, trials, skipped = _all_estimators(days, model, ks, progress)
    if not trials:
        raise InvalidInteractions(f"no setting could be tried: {'; '.join(skipped)}")
    best = max(trials, key=lambda trial: trial.map)
    progress("weights of the three moments", len(ESTIMATORS) / (len(ESTIMATORS) + 1))
    trials += _three_moment_trials(nested[best.model.estimator], best.model, weights, days)
    present = None
    if model.estimator in nested:
        present = _present_trial(nested[model.estimator], model, weights, days)
        others = (t for t in trials if t.settings() != present.settings())
        trials = [present, *others]
    return Sweep(tuple(trials), present, best.popularity, len(best.ap), tuple(skipped))


def _all_estimators(
    days: _Days, model: ModelSettings, ks: Sequence[int], progress: Progress
) -> tuple[dict[str, NestedMoments], list[Trial], list[str]]:
    """Try every estimator: its moments by name, the trials, and why some could not be tried."""
    nested: dict[str, NestedMoments] = {}
    trials: list[Trial] = []
    skipped: list[str] = []
    n_parts = len(ESTIMATORS) + 1
    for done, name in enumerate(sorted(ESTIMATORS, key=lambda name: name != model.estimator)):
        tell = partial(_tell_of_estimator, progress, done / n_parts, n_parts)
        tell(f"{name}: moments", 0.0)
        try:
            nested[name] = NestedMoments.from_rows(days.train, name, max(ks), model.seed)
        except MomError as error:
            skipped.append(str(error))
            continue
        own = replace(model, estimator=name)
        trials += _component_trials(nested[name], own, ks, days, tell)
    return nested, trials, skipped


def _tell_of_estimator(
    progress: Progress, begin: float, n_parts: int, text: str, share: float
) -> None:
    """Report a share of one part of the sweep as one of the whole."""
    progress(text, begin + share / n_parts)


def _sizes_to_try(train: Csr, model: ModelSettings, wanted: Sequence[int]) -> list[int]:
    n_users = int((np.diff(train.indptr) > 0).sum())
    most = min(n_users, int((np.diff(train.tocsc().indptr) > 0).sum()))
    ks = list(sizes(most, n_users, model.n_components, wanted))
    if not ks:
        raise InvalidInteractions(
            f"none of the K to try is at most {most}, which {n_users} users and their items "
            "support; choose smaller ones"
        )
    return ks


def _component_trials(
    moments: NestedMoments, model: ModelSettings, ks: Sequence[int], days: _Days, tell: Progress
) -> list[Trial]:
    """Every K that the moments support, and every rule of personalization."""
    trials = []
    supported = [k for k in ks if k <= moments.supported]
    for done, k in enumerate(supported):
        tell(f"{model.estimator}: K = {k}", done / len(supported))
        fitted = moments.model(k, Personalization.from_settings(model), model.projection)
        for rule in PERSONALIZATIONS:
            tried = replace(model, n_components=k, personalization=rule, ranking="components")
            own = replace(fitted, personalization=Personalization.from_settings(tried))
            trials.append(days.trial(tried, None, own))
    return trials


def _three_moment_trials(
    moments: NestedMoments, best: ModelSettings, weights: RankingWeights, days: _Days
) -> list[Trial]:
    """The three-moment ranking with the present weights, and with weights chosen for it."""
    k, (N, D) = best.n_components, days.train.shape
    fitted = moments.model(k, Personalization.from_settings(best), best.projection)
    split = given_split(days.train, days.test[:N, :D], np.random.default_rng(best.seed))
    exponents = {*split.user_exponents, weights.user_exponent}
    low_pass = {e: _low_pass(days.train, e, best.seed) for e in exponents}
    spans = {e: low_pass[e] for e in split.user_exponents}
    chosen = choose_weights(split, spans, fitted.component_scores).weights
    tried = replace(best, ranking="three-moment")
    rankings = [
        PairRanking(days.train, low_pass[w.user_exponent], w)
        for w in dict.fromkeys((weights, chosen))
    ]
    return [days.trial(tried, r.weights, replace(fitted, pair_ranking=r)) for r in rankings]


def _present_trial(
    moments: NestedMoments, model: ModelSettings, weights: RankingWeights, days: _Days
) -> Trial:
    """Return the trial of the settings as they are."""
    k = min(model.n_components, moments.supported)
    fitted = moments.model(k, Personalization.from_settings(model), model.projection)
    if model.ranking == "components":
        return days.trial(model, None, fitted)
    low_pass = _low_pass(days.train, weights.user_exponent, model.seed)
    ranking = PairRanking(days.train, low_pass, weights)
    return days.trial(model, weights, replace(fitted, pair_ranking=ranking))


def _low_pass(X: Csr, user_exponent: float, seed: int) -> LowPass:
    return LowPass.from_rows(X, user_exponent, np.random.default_rng(seed))


def _some_users(train: Csr, test: Csr, seed: int) -> Csr:
    """Keep what at most MAX_USERS users, drawn at random, took; the rows stay in place."""
    train = grown(train, test.shape)
    new = (test.astype(bool) > train.astype(bool)).tocsr()
    users = np.flatnonzero((np.diff(new.indptr) > 0) & (np.diff(train.indptr) > 0))
    if len(users) == 0:
        raise InvalidInteractions(
            "no user with a history took anything new on the validation days; use more days"
        )
    kept = np.zeros(test.shape[0], dtype=bool)
    kept[np.random.default_rng(seed).permutation(users)[:MAX_USERS]] = True
    some = test.copy()
    some.data = some.data * np.repeat(kept, np.diff(test.indptr))
    some.eliminate_zeros()
    return some
