"""Choosing the weights of the three-moment ranking on a held-out part of the training data.

Every part is scored once, at the few hundred items that any part puts on top, and in small blocks
of users; trying weights on what is kept is only adding up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.evaluation.metrics import metrics_of_hits
from mom_pipeline.core.interactions import as_binary, with_narrow_indices
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.parts import Ease, Histories, Pairs, invertible
from mom_pipeline.core.ranking.score import RankingWeights, best_unseen, combined
from mom_pipeline.core.ranking.topn import Scorer, hide_seen, top_n
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

CUTOFF = 20
# What the search tries for each setting.
GRID: dict[str, tuple[float, ...]] = {
    "user_exponent": (0.5, 1.0),
    "sharpness": (1.0, 1.5, 2.0),
    "candidate_exponent": (0.2, 0.3, 0.4, 0.5, 0.6),
    "history_exponent": (0.3, 0.4, 0.5, 0.6),
    "low_pass_ridge": (0.0, 1.0, 3.0, 10.0, 30.0, 100.0),
    "low_pass": (0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 4.0),
    "ease_ridge": (0.2, 1.0, 5.0, 15.0),
    "ease": (0.0, 0.2, 0.5, 1.0, 2.0, 4.0),
    "components": (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0),
    "pairs": (0.0, 0.3, 1.0),
    "popularity": (0.0, 0.02, 0.05, 0.1, 0.2, 0.5),
}
# The settings that each part is scored with; its weight has the part's name.
_SETTINGS_OF = {
    "pairs": ("user_exponent", "sharpness", "history_exponent", "candidate_exponent"),
    "ease": ("ease_ridge",),
    "low_pass": ("user_exponent", "low_pass_ridge"),
    "components": (),
    "popularity": (),
}
# Parts that a second and a third search begin with: one step at a time does not get there.
_LEADERS = ("ease", "low_pass")
# Users to ask about: more cost time, fewer leave the choice to chance.
MAX_USERS = 3000
_SWEEPS = 3
_HELD_OUT_SHARE = 0.2
# What was hidden at random is not the future: what people take next may be more popular, or
# less. So the defaults are left only for gains that stand out further, and a user's weight not
# at all: Gowalla's hidden items prefer 1/2, and its test items 1.
_CLEAR_ON_LATER, _CLEAR_ON_HIDDEN = 1.0, 2.0
_EXPONENTS_ON_HIDDEN = (RankingWeights().user_exponent,)
_CANDIDATES_PER_PART = 100
_USERS_PER_BLOCK, _SCORES_PER_BLOCK = 512, 2_600_000
# Parts with their settings that a block keeps divided by the best item, at some 300 kB each.
_SCALED_KEPT = 64

# A part's name and the settings that it was scored with: ("ease", 5.0), ("components",).
PartKey = tuple[str | float, ...]


@dataclass(frozen=True)
class HeldOut:
    """A split of the interactions.

    train: (N, D) what is left.  users: positions of the users to ask about.
    test: (len(users), D) what was hidden of them.
    clear_gain: standard errors of its mean that a gain must exceed to be taken.
    user_exponents: to choose from.
    exclude_seen: what a user had before is neither listed nor to be found again.
    """

    train: Csr
    users: Array
    test: Csr
    clear_gain: float = _CLEAR_ON_LATER
    user_exponents: tuple[float, ...] = GRID["user_exponent"]
    exclude_seen: bool = True


@dataclass(frozen=True)
class Choice:
    """The chosen weights, and the mean of Recall@20, nDCG@20 and MAP@20 reached."""

    weights: RankingWeights
    quality: float
    n_users: int
    evaluations: int


def hold_out(
    X: Csr, rng: np.random.Generator, *, max_users: int = MAX_USERS, exclude_seen: bool = True
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
        clear_gain=_CLEAR_ON_HIDDEN,
        user_exponents=_EXPONENTS_ON_HIDDEN,
        exclude_seen=exclude_seen,
    )


def given_split(
    X: Csr, test: Csr, rng: np.random.Generator, *, exclude_seen: bool = True
) -> HeldOut:
    """Use later interactions of the same users as what is to be found. X, test: (N, D).

    exclude_seen: what a user had before is not to be found again.
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
    users = np.sort(rng.permutation(users)[:MAX_USERS])
    return HeldOut(X, users, wanted[users], exclude_seen=exclude_seen)


def choose_weights(
    held_out: HeldOut,
    low_pass: dict[float, LowPass],
    components: Scorer,
    progress: Callable[[float], None] = lambda share: None,
) -> Choice:
    """Search the grid for the best mean of Recall@20, nDCG@20 and MAP@20.

    From several starts, one setting at a time; every move, and the preference for another
    start than the defaults, must be a gain that stands clear of its standard error.

    low_pass: by user exponent.  low_pass and components must come from `held_out.train`.
    """
    parts = SearchParts.from_rows(held_out.train, low_pass, components)
    without = () if parts.ease else ("ease", *_SETTINGS_OF["ease"])
    grid = {name: options for name, options in GRID.items() if name not in without}
    search = _Search(
        _in_blocks(held_out, parts, progress),
        grid | {"user_exponent": held_out.user_exponents},
        held_out.clear_gain,
    )
    defaults = RankingWeights()
    best = search.climb(defaults)
    for leader in _LEADERS:
        if leader in grid:
            start = _with(_with(defaults, pairs=0.3, low_pass=0.0), **{leader: 1.0})
            best = search.better(best, search.climb(start))
    quality = float(search.quality(best).mean())
    return Choice(best, quality, len(held_out.users), len(search.known))


@dataclass(frozen=True)
class SearchParts:
    """The parts with every setting that the grid asks for; from the training part of a split.

    pairs: one for each user exponent and sharpness.  history_exponents: to try with each of them.
    ease: by ridge; empty where there are too many items.
    low_pass: by user exponent.  low_pass_ridges: to try with each of them.
    """

    pairs: tuple[Pairs, ...]
    history_exponents: tuple[float, ...]
    ease: dict[float, Ease]
    low_pass: dict[float, LowPass]
    low_pass_ridges: tuple[float, ...]
    components: Scorer

    @classmethod
    def from_rows(cls, X: Csr, low_pass: dict[float, LowPass], components: Scorer) -> "SearchParts":
        counted = [Pairs.from_rows(X, user_exponent) for user_exponent in low_pass]
        return cls(
            pairs=tuple(one.sharpened(power) for one in counted for power in GRID["sharpness"]),
            history_exponents=GRID["history_exponent"],
            ease=Ease.of_ridges(X, GRID["ease_ridge"]) if invertible(X) else {},
            low_pass=low_pass,
            low_pass_ridges=GRID["low_pass_ridge"],
            components=components,
        )

    def at_best(self, X: Csr, exclude_seen: bool) -> tuple[Array, dict[PartKey, Array]]:
        """Return the best items of each part, and all parts with all settings at them.

        items: (users, candidates), rising, then -1.  The parts: (users, candidates) each, pairs
        without the candidate's scale, and under "seen" whether the item is one of the history.
        """
        rows = Histories(X, self.components)
        scores = self._scores(rows)
        items = _tops(self._leading(rows, scores), X, exclude_seen)
        scores["seen",] = rows.once.toarray()
        own = np.maximum(items, 0)
        parts = {key: np.take_along_axis(part, own, axis=1) for key, part in scores.items()}
        for user_exponent, low_pass in self.low_pass.items():
            filtered = low_pass.at_ridges(rows, own, self.low_pass_ridges)
            for ridge, part in zip(self.low_pass_ridges, filtered, strict=True):
                parts["low_pass", user_exponent, ridge] = part
        return items, {key: part.astype(np.float32) for key, part in parts.items()}

    def _scores(self, rows: Histories) -> dict[PartKey, Array]:
        """Return all parts but popularity and low-pass for every item: (users, D) each."""
        scores: dict[PartKey, Array] = {("components",): self.components(rows.X)}
        for pairs in self.pairs:
            sums = pairs.history_sums(rows.once, self.history_exponents)
            for exponent, own in zip(self.history_exponents, sums, strict=True):
                scores["pairs", pairs.user_exponent, pairs.sharpness, exponent] = own
        for ridge, ease in self.ease.items():
            scores["ease", ridge] = ease.scores(rows)
        return scores

    def _leading(self, rows: Histories, scores: dict[PartKey, Array]) -> list[Array]:
        """Return each part with its default settings, to be written to."""
        default = RankingWeights()
        leaders = [scores["components",].copy()]
        for pairs in self.pairs:
            if pairs.sharpness == default.sharpness:
                key = ("pairs", pairs.user_exponent, pairs.sharpness, default.history_exponent)
                leaders.append(scores[key] * pairs.candidate_scale(default.candidate_exponent))
        for low_pass in self.low_pass.values():
            leaders.append(replace(low_pass, ridge=default.low_pass_ridge).scores(rows))
        if self.ease:
            leaders.append(scores["ease", default.ease_ridge].copy())
        return leaders


@dataclass(frozen=True)
class Candidates:
    """The parts at the candidates of a block of users: (users, candidates) each.

    n_users: all of the block.  users: those of them with an item to be found among their
    candidates; the quality of the others is 0, whatever the weights.
    items: positions, rising, then -1.  test: (users, D), all to be found.
    no_item, seen, hits: row and column of the entries that are no item, that are no unseen item,
    and that are to be found.
    """

    n_users: int
    users: Array
    items: Array
    no_item: tuple[Array, ...]
    seen: tuple[Array, ...]
    hits: tuple[Array, ...]
    test: Csr
    pairs: tuple[Pairs, ...]
    parts: dict[PartKey, Array]
    _scaled: dict[PartKey, Array] = field(default_factory=dict)

    @classmethod
    def from_rows(
        cls, X: Csr, test: Csr, parts: SearchParts, *, exclude_seen: bool = True
    ) -> "Candidates":
        """Score all items for histories X, and keep those that any part puts on top.

        exclude_seen: none of the history among them.
        """
        items, scores = parts.at_best(X, exclude_seen)
        wanted = np.take_along_axis(test.toarray() > 0, np.maximum(items, 0), axis=1)
        wanted &= items >= 0
        users = np.flatnonzero(wanted.any(axis=1))
        items, wanted = items[users], wanted[users]
        scores = {key: part[users] for key, part in scores.items()}
        seen = np.nonzero((items < 0) | (scores.pop(("seen",)) > 0))
        scores["popularity",] = parts.pairs[0].item_users.astype(np.float32)[items]
        no_item, hits = np.nonzero(items < 0), np.nonzero(wanted)
        return cls(X.shape[0], users, items, no_item, seen, hits, test[users], parts.pairs, scores)

    def quality(self, w: RankingWeights) -> Float64:
        """Return the mean of Recall@20, nDCG@20 and MAP@20 of every user."""
        ones = np.ones(len(self.items))
        weighted = ((name, getattr(w, name)) for name in _SETTINGS_OF)
        terms = ((name, weight, self._part(name, w), ones) for name, weight in weighted if weight)
        scores, _ = combined(terms, self.items.shape)
        scores[self.no_item] = -np.inf
        hits = _listed(scores, self.hits)
        values = metrics_of_hits(*hits, self.test, (CUTOFF,))
        quality = np.zeros(self.n_users)
        quality[self.users] = (values["recall"] + values["ndcg"] + values["map"])[:, 0] / 3
        return quality

    def _part(self, name: str, w: RankingWeights) -> Array:
        """Return a part with the settings of w, divided by the best unseen item of each user."""
        key = (name, *(getattr(w, setting) for setting in _SETTINGS_OF[name]))
        scaled = self._scaled.get(key)
        if scaled is None:
            part = self._scaled_pairs(w) if name == "pairs" else self.parts[key].copy()
            scaled = part / best_unseen(part, self.seen)[:, None].astype(part.dtype)
            while len(self._scaled) >= _SCALED_KEPT:
                self._scaled.pop(next(iter(self._scaled)), None)
            self._scaled[key] = scaled
        return scaled

    def _scaled_pairs(self, w: RankingWeights) -> Array:
        sums = self.parts["pairs", w.user_exponent, w.sharpness, w.history_exponent]
        (scale,) = (
            pairs.candidate_scale(w.candidate_exponent)
            for pairs in self.pairs
            if (pairs.user_exponent, pairs.sharpness) == (w.user_exponent, w.sharpness)
        )
        return np.asarray(sums * scale[self.items])


def _tops(parts: list[Array], X: Csr, exclude_seen: bool) -> Array:
    """Return the items that any part puts on top, each once, rising, then -1.

    Those that are new to the user in any case: the parts are scaled by them. The parts are
    written to.
    """
    best = []
    for part in parts:
        if not exclude_seen:
            best.append(top_n(part, _CANDIDATES_PER_PART)[0])
        hide_seen(part, X)
        best.append(top_n(part, _CANDIDATES_PER_PART)[0])
    D = X.shape[1]
    items = np.sort(np.hstack(best), axis=1)
    items[:, 1:][items[:, 1:] == items[:, :-1]] = D
    items[items < 0] = D
    items.sort(axis=1)
    width = int((items < D).sum(axis=1).max(initial=1))
    return np.where(items < D, items, -1)[:, :width]


def _listed(scores: Array, entries: tuple[Array, ...]) -> tuple[Array, Array]:
    """Return row and rank of those entries that are among the CUTOFF largest of their rows.

    Equal scores rank in the order of their columns. Both results are sorted by row and rank.
    """
    rows, columns = entries
    own, values = scores[rows], scores[entries][:, None]
    ranks = _true_per_row(own > values)
    near = np.flatnonzero(ranks < CUTOFF)
    tied = near[_true_per_row(own[near] >= values[near]) > ranks[near] + 1]
    before = np.arange(own.shape[1]) < columns[tied, None]
    ranks[tied] += _true_per_row((own[tied] == values[tied]) & before)
    listed = np.flatnonzero(ranks < CUTOFF)
    listed = listed[np.lexsort((ranks[listed], rows[listed]))]
    return rows[listed], ranks[listed]


def _true_per_row(table: Array) -> Array:
    # Three times as fast as count_nonzero along an axis.
    return np.asarray(table.view(np.uint8).sum(axis=1, dtype=np.uint32), dtype=np.int64)


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
    clear_gain: float
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

    def better(self, settled: RankingWeights, rival: RankingWeights) -> RankingWeights:
        """Return the rival where its gain is clear, else what was settled."""
        gains = self.quality(rival) - self.quality(settled)
        standard_error = float(gains.std()) / np.sqrt(len(gains))
        return rival if float(gains.mean()) > self.clear_gain * standard_error else settled

    def quality(self, weights: RankingWeights) -> Float64:
        """Measure once."""
        if weights not in self.known:
            blocks = [block.quality(weights) for block in self.candidates]
            self.known[weights] = np.concatenate(blocks)
        return self.known[weights]


def _with(weights: RankingWeights, **changes: Any) -> RankingWeights:
    return replace(weights, **changes)


def _matters(name: str, weights: RankingWeights) -> bool:
    """Tell whether a setting changes anything: not where its part has no weight."""
    owners = [part for part, settings in _SETTINGS_OF.items() if name in settings]
    return len(owners) != 1 or getattr(weights, owners[0]) > 0


def _kept(X: Csr, entries: Array) -> Csr:
    """Return X with only the marked entries."""
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    kept = sparse.csr_array((X.data[entries], (users[entries], X.indices[entries])), shape=X.shape)
    return with_narrow_indices(kept)
