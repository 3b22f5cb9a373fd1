"""Choosing the weights of the three-moment ranking on a held-out part of the training data.

The parts are scored once, at some candidates (`candidates.py`) and in small blocks of users; trying
weights on what is kept is only adding up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import as_binary, with_narrow_indices
from mom_pipeline.core.moments.users import Users, UsersInMemory
from mom_pipeline.core.ranking.candidates import GRID, SETTINGS_OF, Candidates, SearchParts
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.recency import aged
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.ranking.topn import Scorer
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Where further searches begin: one step at a time does not get there.
_STARTS: tuple[dict[str, float], ...] = (
    {"ease": 0.0, "low_pass": 0.5, "components": 0.0},
    {"pairs": 0.3, "low_pass": 1.0, "ease": 0.0, "components": 0.0},
    {"pairs": 0.0, "low_pass": 0.0, "ease": 0.0, "components": 0.0, "popularity": 1.0},
    {"trend": 1.0, "trend_half_life": 30.0},
    {"trend": 1.0, "trend_half_life": 7.0, "ease": 0.0, "low_pass": 0.5, "components": 0.0},
    {"own": 1.0},
)
# What is tried last, with the weights that were chosen: each option is a part made anew.
_LAST_ON_DAYS = {
    "history_half_life": (120.0, 60.0, 30.0, 10.0),
    "low_pass_scaling": (0.25, 0.4, 0.5),
}
# Users to ask about: more cost time, fewer leave the choice to chance. On later days any gain
# counts, so there are more of them; what was hidden has to promise more than chance does.
MAX_USERS, MAX_HIDDEN_USERS = 8000, 3000
# Up to so many items EASE has a weight by default; see `default_weights`.
_EASE_BY_DEFAULT = 10_000
_SWEEPS = 3
_HELD_OUT_SHARE = 0.2
# What was hidden at random is not the future: what people take next may be more popular, or
# less. A choice made on hidden items replaces the defaults only where it promises a tenth more.
_LEAST_GAIN_ON_HIDDEN = 0.1
# Of more users so many are asked first, and all of them where these promise half as much.
_ASKED_FIRST = 500
_USERS_PER_BLOCK, _SCORES_PER_BLOCK = 512, 2_600_000


# The low-pass part of a user exponent and a scaling.
LowPassOf = Callable[[float, float], LowPass]


@dataclass(frozen=True)
class HeldOut:
    """A split of the interactions.

    train: (N, D) what is left.  users: positions of the users to ask about.
    test: (len(users), D) what was hidden of them.
    least_gain: what a choice must promise over the defaults, as a share of their quality.
    user_exponents: to choose from.
    exclude_seen: what a user had before is neither listed nor to be found again.
    last_days: (N, D) of `train`, to choose the trend on; None: no trend is tried.
    everyone: who the parts are made from, where `train` holds only some of their rows.
    """

    train: Csr
    users: Array
    test: Csr
    least_gain: float = 0.0
    user_exponents: tuple[float, ...] = GRID["user_exponent"]
    exclude_seen: bool = True
    last_days: Csr | None = None
    everyone: Users | None = None

    @property
    def learnt_from(self) -> Users:
        """The users whose rows the parts are made from."""
        return self.everyone or UsersInMemory(self.train, self.last_days)

    def looks(self) -> "list[tuple[HeldOut, float]]":
        """Return whom to ask, one look after another, and what each must promise to go on."""
        looks, step = [(self, self.least_gain)], len(self.users) // _ASKED_FIRST
        if self.least_gain and step > 1:
            some = replace(self, users=self.users[::step], test=self.test[::step])
            looks.insert(0, (some, self.least_gain / 2))
        return looks


@dataclass(frozen=True)
class WeightChoice:
    """The chosen weights, and the mean of Recall@20, nDCG@20 and MAP@20 reached."""

    weights: RankingWeights
    quality: float
    n_users: int
    evaluations: int


def hold_out(
    X: Csr,
    rng: np.random.Generator,
    *,
    max_users: int = MAX_HIDDEN_USERS,
    exclude_seen: bool = True,
) -> HeldOut | None:
    """Hide a fifth (at least one) of the items of every user who has two or more.

    Everybody loses items, not only the up to `max_users` users that are asked about: the
    counts then are as thin as they are before the future, and the weights chosen on them hold.
    Returns None where no user has two items.
    """
    sizes = np.diff(X.indptr)
    hidden_per_user = np.where(sizes >= 2, np.maximum(1, np.rint(_HELD_OUT_SHARE * sizes)), 0)
    eligible = np.flatnonzero(hidden_per_user)
    if len(eligible) == 0:
        return None
    owners = np.repeat(np.arange(X.shape[0]), sizes)
    shuffled = np.lexsort((rng.random(X.nnz), owners))
    rank_in_row = np.arange(X.nnz) - np.repeat(X.indptr[:-1], sizes)
    hidden = np.zeros(X.nnz, dtype=bool)
    hidden[shuffled] = rank_in_row < hidden_per_user[owners]
    users = np.sort(rng.permutation(eligible)[:max_users])
    return HeldOut(
        train=_kept(X, ~hidden),
        users=users,
        test=_kept(X, hidden)[users],
        least_gain=_LEAST_GAIN_ON_HIDDEN,
        user_exponents=(RankingWeights().user_exponent,),  # another one costs as much as the rest
        exclude_seen=exclude_seen,
    )


def given_split(
    X: Csr,
    test: Csr,
    rng: np.random.Generator,
    *,
    max_users: int = MAX_USERS,
    exclude_seen: bool = True,
    last_days: Csr | None = None,
) -> HeldOut:
    """Use later interactions of the same users as what is to be found. X, test: (N, D).

    exclude_seen: what a user had before is not to be found again.
    last_days: (N, D) of X; without them no trend is tried.
    """
    if test.shape[0] != X.shape[0]:
        raise InvalidInteractions(
            f"held_out must have the {X.shape[0]} users of the training data, "
            f"found {test.shape[0]} rows"
        )
    wanted = as_binary(test).copy()
    if exclude_seen:
        wanted = sparse.csr_array(wanted > as_binary(X)).astype(np.float64)
    wanted.sort_indices()
    users = np.flatnonzero((np.diff(wanted.indptr) > 0) & (np.diff(X.indptr) > 0))
    if len(users) == 0:
        beyond = " beyond it" if exclude_seen else ""
        raise InvalidInteractions(
            f"no user of held_out has both a history in the training data and an item{beyond}"
        )
    users = np.sort(rng.permutation(users)[:max_users])
    return HeldOut(X, users, wanted[users], exclude_seen=exclude_seen, last_days=last_days)


def default_weights(n_items: int) -> RankingWeights:
    """Return what ranks where nothing can be chosen.

    In a large catalogue EASE promised less than a tenth more on hidden items of the one such data
    set at hand: there it has a weight only where it was chosen.
    """
    if n_items > _EASE_BY_DEFAULT:
        return RankingWeights(ease=0.0, low_pass=0.5, components=0.0)
    return RankingWeights()


def choose_weights(
    held_out: HeldOut,
    low_pass: LowPassOf,
    components: Scorer,
    progress: Callable[[float], None] = lambda share: None,
    *,
    fixed: Mapping[str, float] = MappingProxyType({}),
) -> WeightChoice:
    """Search the grid for the best mean of Recall@20, nDCG@20 and MAP@20.

    From several starts, one setting at a time; every move must be a gain that exceeds its standard
    error. Of where the starts end the best is taken: far from each other, they differ by noise in
    most users. The defaults stay where the whole promises less than `held_out.least_gain`.

    low_pass, components: made from the same rows as the parts.
    fixed: settings that are not for choice.
    """
    grid = _grid(held_out, fixed)
    defaults = _with(default_weights(held_out.train.shape[1]), **fixed)
    # On other days half the user exponent was as good a scaling as any, to begin with.
    scalings = {e: fixed.get("low_pass_scaling", e / 2) for e in grid["user_exponent"]}
    low_pass = cache(low_pass)
    spans = {e: low_pass(e, scaling) for e, scaling in scalings.items()}
    eases = {}
    if any(grid["ease"]):
        eases = Ease.for_ridges(held_out.learnt_from, grid["ease_ridge"])
    parts = SearchParts.from_users(held_out.learnt_from, grid, spans, eases, components)
    starts = [
        _with(defaults, **start)
        for start in ({}, *_STARTS)
        if not set(start) & set(fixed) and all(name in grid for name in start)
    ]
    for asked, least_gain in held_out.looks():
        search = _Search(_in_blocks(asked, parts, progress), grid)
        best = search.best_from(starts)
        if search.promised(best, defaults) < least_gain:
            best = defaults
            break
    quality, known = float(search.quality(best).mean()), len(search.known)
    if best != defaults:
        best = _with(best, low_pass_scaling=scalings[best.user_exponent])
    last = _last(held_out, best, defaults, fixed)
    if last:
        trial = _Trial.from_choice(held_out, low_pass, eases, components, best)
        for name, options in last.items():
            best = trial.with_best(best, name, options)
    return WeightChoice(best, quality, len(asked.users), known)


def _last(
    held_out: HeldOut, best: RankingWeights, defaults: RankingWeights, fixed: Mapping[str, float]
) -> dict[str, tuple[float, ...]]:
    """Return what is left to try once weights are chosen, and its options.

    Nothing where the defaults stay: a gain that was too small to trust is none to refine.
    """
    if held_out.least_gain and best == defaults:
        return {}
    last = _LAST_ON_DAYS if held_out.last_days is not None else {}
    return {n: options for n, options in last.items() if n not in fixed and _matters(n, best)}


@dataclass(frozen=True)
class _Trial:
    """Weights that were chosen, with other values of settings that change all of a part.

    parts: with the settings of the weights alone.  eases: by ridge.
    """

    held_out: HeldOut
    low_pass: LowPassOf
    eases: dict[float, Ease]
    parts: SearchParts

    @classmethod
    def from_choice(
        cls,
        held_out: HeldOut,
        low_pass: LowPassOf,
        eases: dict[float, Ease],
        components: Scorer,
        chosen: RankingWeights,
    ) -> "_Trial":
        grid = {name: (getattr(chosen, name),) for name in GRID}
        e = chosen.user_exponent
        spans = {e: low_pass(e, chosen.low_pass_scaling)}
        parts = SearchParts.from_users(held_out.learnt_from, grid, spans, {}, components)
        return cls(held_out, low_pass, eases, parts)

    def with_best(
        self, chosen: RankingWeights, name: str, options: tuple[float, ...]
    ) -> RankingWeights:
        """Return chosen weights with the value of a setting that is clearly the best with them."""
        rivals = [_with(chosen, **{name: value}) for value in options]
        qualities = {one: self._quality(one) for one in dict.fromkeys([chosen, *rivals])}
        best = max(qualities, key=lambda one: float(qualities[one].mean()))
        return best if _is_clear(qualities[best] - qualities[chosen]) else chosen

    def _quality(self, weights: RankingWeights) -> Float64:
        X, e, ridge = self.held_out.train, weights.user_exponent, weights.ease_ridge
        older = aged(X, self.held_out.last_days, weights.history_half_life)
        parts = replace(
            self.parts,
            low_pass={e: self.low_pass(e, weights.low_pass_scaling)},
            ease={ridge: self.eases[ridge]} if weights.ease else {},
        )
        blocks = _in_blocks(replace(self.held_out, train=older), parts, lambda share: None)
        return np.concatenate([block.quality(weights) for block in blocks])


def _grid(held_out: HeldOut, fixed: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """Return what to try for each setting; one that cannot be tried is left out."""
    without: set[str] = set()
    if held_out.exclude_seen:
        without |= {"own"}
    if held_out.last_days is None:
        without |= {"trend", "trend_half_life"}
    grid = {name: options for name, options in GRID.items() if name not in without}
    grid["user_exponent"] = held_out.user_exponents
    return grid | {name: (value,) for name, value in fixed.items() if name in grid}


def _in_blocks(
    held_out: HeldOut, parts: SearchParts, progress: Callable[[float], None]
) -> list[Candidates]:
    """Find the candidates of all users, in blocks that stay in a core's cache afterwards."""
    X = held_out.train[held_out.users]
    step = max(1, min(_USERS_PER_BLOCK, _SCORES_PER_BLOCK // X.shape[1]))
    starts = range(0, X.shape[0], step)
    done = iter(range(1, len(starts) + 1))

    def block(start: int) -> Candidates:
        rows = slice(start, start + step)
        candidates = Candidates.from_rows(
            X[rows], held_out.test[rows], parts, exclude_seen=held_out.exclude_seen
        )
        progress(next(done) / len(starts))
        return candidates

    return map_blocks(block, starts)


@dataclass(frozen=True)
class _Search:
    """A walk over the grid that remembers what it has measured."""

    candidates: list[Candidates]
    grid: dict[str, tuple[float, ...]]
    known: dict[RankingWeights, Float64] = field(default_factory=dict)

    def climb(self, weights: RankingWeights) -> RankingWeights:
        """Take the best option of one setting after the other, until nothing moves."""
        for _ in range(_SWEEPS):
            before = weights
            for name, options in self.grid.items():
                if not _matters(name, weights):
                    continue
                rivals = [_with(weights, **{name: option}) for option in options]
                map_blocks(self.quality, rivals)
                best = max(rivals, key=lambda rival: float(self.quality(rival).mean()))
                weights = self.better(weights, best)
            if weights == before:
                break
        return weights

    def best_from(self, starts: list[RankingWeights]) -> RankingWeights:
        """Return the best of where several walks end; of equals the first."""
        ends = [self.climb(start) for start in starts]
        return max(ends, key=lambda end: float(self.quality(end).mean()))

    def better(self, settled: RankingWeights, rival: RankingWeights) -> RankingWeights:
        """Return the rival where its gain is clear, else what was settled."""
        gains = self.quality(rival) - self.quality(settled)
        return rival if _is_clear(gains) else settled

    def promised(self, rival: RankingWeights, settled: RankingWeights) -> float:
        """Return by which share of its quality a rival is better than what was settled."""
        ours, theirs = (float(self.quality(one).mean()) for one in (rival, settled))
        return (ours - theirs) / theirs if theirs > 0 else float(ours > 0)

    def quality(self, weights: RankingWeights) -> Float64:
        """Return the quality for every user, measured once for the same weights."""
        if weights not in self.known:
            blocks = [block.quality(weights) for block in self.candidates]
            self.known[weights] = np.concatenate(blocks)
        return self.known[weights]


def _is_clear(gains: Float64) -> bool:
    """Tell whether the mean of users' gains exceeds its standard error."""
    return float(gains.mean()) > float(gains.std()) / np.sqrt(len(gains))


def _with(weights: RankingWeights, **changes: Any) -> RankingWeights:
    return replace(weights, **changes)


def _matters(name: str, weights: RankingWeights) -> bool:
    """Tell whether a setting changes anything: not where its part has no weight."""
    if name == "trend_half_life":
        return weights.trend > 0
    if name == "low_pass_scaling":
        return weights.low_pass > 0
    owners = [part for part, settings in SETTINGS_OF.items() if name in settings]
    return len(owners) != 1 or getattr(weights, owners[0]) > 0


def _kept(X: Csr, entries: Array) -> Csr:
    """Return X with only the marked entries."""
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    kept = sparse.csr_array((X.data[entries], (users[entries], X.indices[entries])), shape=X.shape)
    return with_narrow_indices(kept)
