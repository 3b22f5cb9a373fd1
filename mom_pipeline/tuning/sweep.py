"""The sweep: every setting on the same validation days, and which one to take."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions, MomError
from mom_pipeline.core.evaluation.backtest import foresight
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.moments.daily import grown
from mom_pipeline.core.ranking.choose import choose_weights, given_split
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

    ranking_weights: of the three-moment ranking; None where the classes alone rank.
    """

    model: ModelSettings
    ranking_weights: RankingWeights | None
    map: float
    recall: float
    ap: Array

    def gain_over(self, other: "Trial") -> tuple[float, float]:
        """The mean difference of the average precision, and its standard error."""
        d = self.ap - other.ap
        return float(d.mean()), float(d.std() / np.sqrt(len(d)))

    def settings(self) -> dict[str, Any]:
        """What would be written, as `section.key` -> value."""
        keys = ("n_components", "estimator", "personalization", "ranking")
        found = {f"model.{key}": getattr(self.model, key) for key in keys}
        if self.ranking_weights is not None:
            found |= {f"ranking.{k}": v for k, v in asdict(self.ranking_weights).items()}
        return found


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
    of K; the rules of personalization share the classes. The weights of the three-moment
    ranking are chosen for the best classes, on the same users.
    """
    test = _some_users(train, test, model.seed)
    n_users = int((np.diff(train.indptr) > 0).sum())
    most = min(n_users, int((np.diff(train.tocsc().indptr) > 0).sum()))
    ks = list(sizes(most, n_users, model.n_components, wanted))
    if not ks:
        raise InvalidInteractions(
            f"none of the K to try is at most {most}, which {n_users} users and their items "
            "support; choose smaller ones"
        )
    names = sorted(ESTIMATORS, key=lambda name: name != model.estimator)
    trials: list[Trial] = []
    skipped: list[str] = []
    popularity, steps = float("nan"), len(names) * len(ks) + 2
    nested: dict[str, NestedMoments] = {}
    for name in names:
        progress(f"{name}: moments", (len(trials) / len(PERSONALIZATIONS)) / steps)
        try:
            moments = nested[name] = NestedMoments.of(train, name, max(ks), model.seed)  # type: ignore[arg-type]
        except MomError as error:
            skipped.append(str(error))
            continue
        for k in [k for k in ks if k <= moments.supported]:
            progress(f"{name}: K = {k}", (len(trials) / len(PERSONALIZATIONS)) / steps)
            tried, popularity = _class_trials(moments, name, k, model, train, test)
            trials += tried
    if not trials:
        raise InvalidInteractions(f"no setting could be tried: {'; '.join(skipped)}")
    best = max(trials, key=lambda trial: trial.map)
    progress("weights of the three moments", (steps - 2) / steps)
    trials += _three_moment_trials(nested[best.model.estimator], best, train, test, weights)
    present = None
    if model.estimator in nested:
        present = _present_trial(nested[model.estimator], train, test, model, weights)
        trials = [t for t in trials if t.settings() != present.settings()]
    everything = (*([present] if present else []), *trials)
    return Sweep(everything, present, popularity, len(everything[0].ap), tuple(skipped))


def _class_trials(
    moments: NestedMoments, name: str, k: int, model: ModelSettings, train: Csr, test: Csr
) -> tuple[list[Trial], float]:
    """Every rule of personalization on the same classes; and the MAP of popularity."""
    fitted = moments.model(k, _rule(model), model.projection)  # type: ignore[arg-type]
    trials, popularity = [], float("nan")
    for rule in PERSONALIZATIONS:
        chosen = replace(
            model, n_components=k, estimator=name, personalization=rule, ranking="components"
        )
        own = replace(fitted, personalization=_rule(chosen))
        trial, popularity = _trial(chosen, None, own, train, test)
        trials.append(trial)
    return trials, popularity


def _three_moment_trials(
    moments: NestedMoments, best: Trial, train: Csr, test: Csr, weights: RankingWeights
) -> list[Trial]:
    """The three-moment ranking with the present weights, and with weights chosen for it."""
    k = best.model.n_components
    classes = moments.model(k, _rule(best.model), best.model.projection)  # type: ignore[arg-type]
    low_pass, D = moments.low_pass(k), train.shape[1]
    split = given_split(train, test[: train.shape[0], :D], np.random.default_rng(best.model.seed))
    spans = dict.fromkeys(split.user_exponents, low_pass)
    found = choose_weights(split, spans, classes.class_scores).weights
    chosen = replace(best.model, ranking="three-moment")
    return [
        _trial(chosen, w, replace(classes, pair_ranking=PairRanking(train, low_pass, w)),
               train, test)[0]
        for w in dict.fromkeys((weights, found))
    ]  # fmt: skip


def _trial(
    chosen: ModelSettings, weights: RankingWeights | None, model: FittedModel, train: Csr, test: Csr
) -> tuple[Trial, float]:
    found = foresight(model, train, test, (CUTOFF,))
    if found is None:
        raise InvalidInteractions("no user with a history took anything new on the validation days")
    ours = found.model
    trial = Trial(
        chosen, weights, ours.map[CUTOFF], ours.recall[CUTOFF], ours.per_user["map"][:, 0]
    )
    return trial, found.popularity.map[CUTOFF]


def _present_trial(
    moments: NestedMoments, train: Csr, test: Csr, model: ModelSettings, weights: RankingWeights
) -> Trial:
    """The settings as they are."""
    k = min(model.n_components, moments.supported)
    fitted = moments.model(k, _rule(model), model.projection)  # type: ignore[arg-type]
    if model.ranking == "components":
        return _trial(model, None, fitted, train, test)[0]
    ranking = PairRanking(train, moments.low_pass(k), weights)
    return _trial(model, weights, replace(fitted, pair_ranking=ranking), train, test)[0]


def _rule(model: ModelSettings) -> Personalization:
    return Personalization(
        model.personalization,  # type: ignore[arg-type]
        model.temperature,
        model.em_steps,
        model.smoothing,
    )


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
