"""Learning the weights of the ranking: from what users took later, or from what was hidden.

Up to five windows, each with the rows before it and what users took in it; without days, one in
which a fifth of everybody's items is hidden. Each user chooses among candidates: the best items of
each part, the most popular ones of all time and of late, some at random, so that nothing else is
lifted above these, and, where lists may hold them, the own ones. Who took none of these teaches
nothing. The coefficients are those of `logit`, drawn towards the stated ones of `RankingWeights`:
with few users they stay there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import as_binary, with_narrow_indices
from mom_pipeline.core.moments.users import Users, UsersInMemory
from mom_pipeline.core.ranking.logit import Choices, maximise
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.parts import Histories
from mom_pipeline.core.ranking.score import (
    OWN_FEATURES,
    LogitScore,
    RankingWeights,
    best_value,
)
from mom_pipeline.core.ranking.topn import hide_seen, lists_by_popularity, top_n
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# c of the penalty c/n. On weeks of MovieTweetings and 30Music 12 is better than 30 by 24 and 11
# ten-thousandths of nDCG@20, on a month of 30Music 6 worse; 200 is worse by 11 to 28 on four logs.
PENALTY = 20.0
# Windows before a day, fewer where these ask enough, or where a log was much smaller then. On seven
# series of windows of three logs five bring 0 to 1.9 % of nDCG@20 beyond three, eight no more.
_WINDOWS, _FEWEST_WINDOWS, _AS_GROWN = 5, 3, 2 / 3
# Users that are asked, over all windows; candidates of each part, by popularity, and at random.
MAX_USERS = 6000
_BEST, _POPULAR, _DRAWN = 100, 50, 100
_HIDDEN_SHARE = 0.2
_CUTOFF = 20
_USERS_PER_BLOCK, _SCORES_PER_BLOCK = 256, 2_600_000

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Window:
    """What some users had, and what they took after that."""

    X: Csr  # (N, D) what is learnt from
    later: Csr  # (N, D) what users took then, or what was hidden
    last_days: Csr | None = None  # (N, D) of X; None where not known
    everyone: Users | None = None  # visits the rows of X where these lie elsewhere

    @classmethod
    def hiding(cls, X: Csr, rng: np.random.Generator, last_days: Csr | None = None) -> Self | None:
        """Hide a fifth, at least one, of the items of every user of several; None without."""
        sizes = np.diff(X.indptr)
        hidden_per_user = np.where(sizes >= 2, np.maximum(1, np.rint(_HIDDEN_SHARE * sizes)), 0)
        if not hidden_per_user.any():
            return None
        owners = np.repeat(np.arange(X.shape[0]), sizes)
        shuffled = np.lexsort((rng.random(X.nnz), owners))
        rank_in_row = np.arange(X.nnz) - np.repeat(X.indptr[:-1], sizes)
        hidden = np.zeros(X.nnz, dtype=bool)
        hidden[shuffled] = rank_in_row < hidden_per_user[owners]
        days = None if last_days is None else _entries(last_days, ~hidden)
        return cls(_entries(X, ~hidden), _entries(X, hidden), days)

    @classmethod
    def within(cls, X: Csr, rng: np.random.Generator, last_days: Csr | None = None) -> Self | None:
        """Hide the newest fifth of the interactions, or a random one where that cannot be."""
        newest = None if last_days is None else cls.newest(X, last_days)
        return newest or cls.hiding(X, rng, last_days)

    @classmethod
    def newest(cls, X: Csr, last_days: Csr) -> Self | None:
        """Hide the newest fifth of the interactions; None where all are of one day."""
        cut = np.quantile(last_days.data, 1 - _HIDDEN_SHARE, method="lower")
        later = last_days.data > min(cut, last_days.data.max(initial=0) - 1)
        if later.all() or not later.any():
            return None
        return cls(_entries(X, ~later), _entries(X, later), _entries(last_days, ~later))

    def asked(
        self, most: int, rng: np.random.Generator, *, exclude_seen: bool
    ) -> tuple[Array, Csr]:
        """Draw users with a history and something to find: positions, and what, (users, D)."""
        if self.later.shape[0] != self.X.shape[0]:
            raise InvalidInteractions(
                f"held_out must have the {self.X.shape[0]} users of the training data, "
                f"found {self.later.shape[0]} rows"
            )
        both = (np.diff(self.later.indptr) > 0) & (np.diff(self.X.indptr) > 0)
        users = np.sort(rng.permutation(np.flatnonzero(both))[: 2 * most])
        wanted = as_binary(self.later[users])
        if exclude_seen:
            wanted = sparse.csr_array(wanted > as_binary(self.X[users])).astype(np.float64)
        wanted.sort_indices()
        found = np.flatnonzero(np.diff(wanted.indptr))
        found = np.sort(rng.permutation(found)[:most])
        return users[found], wanted[found]


def enough(windows: Sequence[tuple[int, int]]) -> bool:
    """Tell whether windows need no older one beside them. Each: users to be asked, interactions."""
    if not _FEWEST_WINDOWS <= len(windows) < _WINDOWS:
        return len(windows) >= _WINDOWS
    asked, rows = zip(*windows, strict=True)
    return sum(asked) >= MAX_USERS or rows[-1] < _AS_GROWN * rows[0]


@dataclass(frozen=True)
class Learnt:
    """Weights, and what they rest on: nDCG@20 on the first window, among the candidates."""

    weights: RankingWeights
    n_users: int  # who taught
    ndcg: float  # of the weights
    ndcg_stated: float  # of the stated ones
    kept: bool = False  # the earlier weights were better there, and stay


def learn_weights(  # noqa: PLR0913 - what is given, and what is known before
    windows: Sequence[Window],
    *,
    exclude_seen: bool = True,
    penalty: float = PENALTY,
    stated: RankingWeights | None = None,
    fixed: Iterable[str] = (),
    earlier: RankingWeights | None = None,
    seed: int = 0,
    progress: Progress = lambda share: None,
) -> Learnt:
    """Learn the weights from some windows, the newest first.

    stated: towards which the penalty pulls.  fixed: features that stay as stated.
    earlier: weights that stay where they are better on the newest window.
    """
    stated, rng, asked = stated or RankingWeights(), np.random.default_rng(seed), list[_Asked]()
    for number, window in enumerate(windows):
        found = _ask(window, MAX_USERS // len(windows), exclude_seen=exclude_seen, rng=rng)
        asked.append(found)
        progress((number + 1) / (len(windows) + 1))
    blocks = [block for one in asked for block in one.blocks]
    if not blocks:
        return Learnt(stated, 0, 0.0, 0.0)
    names = next(one.names for one in asked if one.blocks)
    logs = np.concatenate([block.logs for block in blocks])
    stated = replace(stated, length_mean=float(logs.mean()), length_scale=float(logs.std()) or 1.0)
    free = np.array([name not in set(fixed) for name in names])
    weights = _fit(blocks, names, stated, penalty, free)
    if all(window.last_days is None for window in windows):
        weights = _with_half_lengths(
            weights, [n for n, own in zip(names, free, strict=True) if own]
        )
    first = asked[0].blocks or blocks
    ours, theirs = (_ndcg(first, names, each) for each in (weights, stated))
    before = None if earlier is None else _ndcg(first, names, earlier)
    if earlier is not None and before is not None and before > ours:
        return Learnt(earlier, len(logs), before, theirs, kept=True)
    return Learnt(weights, len(logs), ours, theirs)


def _fit(
    blocks: Sequence["_Block"],
    names: Sequence[str],
    stated: RankingWeights,
    penalty: float,
    free: Array,
) -> RankingWeights:
    """Return the weights that make what these users took most likely; see `maximise`."""
    scale = _spread(blocks)
    choices = [block.choices(scale, stated) for block in blocks]
    start = np.array([getattr(stated, name) for name in names]).T * scale
    w = maximise(choices, start.ravel(), penalty, free=np.tile(free, 2)).reshape(2, -1) / scale
    learnt: dict[str, Any] = {
        name: (float(w[0, i]), float(w[1, i])) for i, name in enumerate(names)
    }
    return replace(stated, **learnt)


def _with_half_lengths(weights: RankingWeights, names: Iterable[str]) -> RankingWeights:
    """Return weights with half of what length adds.

    Of a long history more is hidden, at random among more: what it tells of later days is less.
    """
    halved: dict[str, Any] = {
        name: (level, slope / 2) for name in names for level, slope in [getattr(weights, name)]
    }
    return replace(weights, **halved)


@dataclass(frozen=True)
class _Block:
    """Some users."""

    z: Array  # as in `Choices`, taken and offered too
    taken: Array
    offered: Array
    logs: Float64  # of their lengths
    ideal: Float64  # the best DCG that each could reach

    def choices(self, scale: Float64, weights: RankingWeights) -> Choices:
        lengths = (self.logs - weights.length_mean) / weights.length_scale
        return Choices(self.z / scale.astype(np.float32), self.taken, self.offered, lengths)

    def order(self, names: Sequence[str], weights: RankingWeights) -> Array:
        """Return the candidates by score, the best first, (users, n)."""
        own = asdict(weights)
        a, b = np.array([own[name] for name in names]).T
        length = (self.logs - weights.length_mean) / weights.length_scale
        scores = np.einsum("ucf,uf->uc", self.z, a + length[:, None] * b)
        scores[~self.offered] = -np.inf
        return np.argsort(-scores, axis=1, kind="stable")


@dataclass(frozen=True)
class _Asked:
    """The users of a window, with the names of the features."""

    names: tuple[str, ...]
    blocks: list[_Block]


def _ask(window: Window, most: int, *, exclude_seen: bool, rng: np.random.Generator) -> _Asked:
    """Find the candidates of some users of a window, with their features."""
    users, wanted = window.asked(most, rng, exclude_seen=exclude_seen)
    if not len(users):
        return _Asked((), [])
    everyone = window.everyone or UsersInMemory(window.X, window.last_days)
    score = PairRanking.from_users(everyone).score
    if exclude_seen:
        score = replace(score, own=())
    D = window.X.shape[1]
    known = np.bincount(window.X.indices, minlength=D) > 0
    drawn = rng.permutation(np.flatnonzero(known))[:_DRAWN]
    step = max(1, min(_USERS_PER_BLOCK, _SCORES_PER_BLOCK // max(D, 1)))

    def block(start: int) -> _Block:
        some = users[start : start + step]
        days = None if window.last_days is None else window.last_days[some]
        rows = Histories(window.X[some], lambda X: np.empty((X.shape[0], 0)), days)
        some_wanted = wanted[start : start + step]
        return _block(score, rows, some_wanted, known, drawn, exclude_seen=exclude_seen)

    blocks = map_blocks(block, range(0, len(users), step))
    return _Asked(score.names, [one for one in blocks if len(one.logs)])


def _block(
    score: LogitScore,
    rows: Histories,
    wanted: Csr,
    known: Array,
    drawn: Array,
    *,
    exclude_seen: bool,
) -> _Block:
    scores = {part.name: part.scores(rows) for part in score.parts}
    seen = rows.seen if exclude_seen else None
    bests = {name: best_value(values, seen) for name, values in scores.items()}
    items, offered = _candidates(score, rows, scores, known, drawn, exclude_seen=exclude_seen)
    z = score.features(rows, items, scores, bests)
    taken = (Histories(wanted, rows.posterior).entries_of(items) >= 0) & offered
    n_wanted = np.minimum(np.diff(wanted.indptr), _CUTOFF)
    ideal = np.cumsum(_discounts(_CUTOFF))[n_wanted - 1]
    teaches = taken.any(axis=1)
    shares = taken[teaches] / taken[teaches].sum(axis=1, keepdims=True)
    logs = np.log(rows.lengths[teaches].astype(np.float64))
    return _Block(z[teaches], shares, offered[teaches], logs, ideal[teaches])


def _candidates(
    score: LogitScore,
    rows: Histories,
    scores: Mapping[str, Array],
    known: Array,
    drawn: Array,
    *,
    exclude_seen: bool,
) -> tuple[Array, Array]:
    """Candidates of users, (users, n), and where there are any; others become -inf in `scores`."""
    lists = [np.tile(drawn, (len(rows.lengths), 1))]
    if exclude_seen:
        lists[0][rows.entries_of(lists[0]) >= 0] = -1
    for values in scores.values():
        values[:, ~known] = -np.inf
        if exclude_seen:
            hide_seen(values, rows.X)
        lists.append(top_n(values, _BEST)[0])
    users = score.items["users"]
    late = [users + score.items[name] for name in score.items if name.startswith("trend_")]
    for popular in (users, *late):
        popular = np.where(known, popular, -np.inf)
        own = lists_by_popularity(popular, rows.X, _POPULAR, exclude_seen=exclude_seen)
        lists.append(own)
    if not exclude_seen:
        lists.append(_own(score, rows))
    items = np.sort(np.concatenate(lists, axis=1), axis=1)
    offered = items >= 0
    offered[:, 1:] &= items[:, 1:] != items[:, :-1]
    width = int(offered.sum(axis=1).max(initial=1))
    order = np.argsort(~offered, axis=1, kind="stable")[:, :width]
    items, offered = (np.take_along_axis(each, order, axis=1) for each in (items, offered))
    return np.where(offered, items, np.maximum(items[:, :1], 0)), offered


def _own(score: LogitScore, rows: Histories) -> Array:
    """Return the items of each user's history, the most frequent and newest first, (users, n)."""
    features = score.own_features(rows)
    strength = features[:, OWN_FEATURES.index("times")] - features[:, OWN_FEATURES.index("since")]
    owners, lengths = rows.seen[0], rows.lengths
    order = np.lexsort((-strength, owners))
    rank = np.arange(len(order)) - np.repeat(rows.X.indptr[:-1], lengths)
    items = np.full((rows.X.shape[0], 2 * _BEST), -1, dtype=np.int64)
    near = rank < items.shape[1]
    items[owners[near], rank[near]] = rows.X.indices[order][near]
    return items


def _spread(blocks: Sequence[_Block]) -> Float64:
    """Return the standard deviation of every feature among the candidates of a user."""
    total, n = np.zeros(blocks[0].z.shape[2]), 0
    for block in blocks:
        weights = block.offered / block.offered.sum(axis=1, keepdims=True)
        z = block.z.astype(np.float64)
        mean = np.einsum("uc,ucf->uf", weights, z)
        total += (np.einsum("uc,ucf->uf", weights, z**2) - mean**2).sum(axis=0)
        n += len(block.logs)
    spread = np.sqrt(np.maximum(total, 0.0) / n)
    return np.where(spread > 1e-6, spread, 1.0)


def _ndcg(blocks: Sequence[_Block], names: Sequence[str], weights: RankingWeights) -> float:
    """Return the mean nDCG@20 of the users of some blocks, ranked among their candidates."""
    total, n = 0.0, 0
    for block in blocks:
        best = block.order(names, weights)[:, :_CUTOFF]
        hits = np.take_along_axis(block.taken, best, axis=1) > 0
        total += float((hits @ _discounts(hits.shape[1]) / block.ideal).sum())
        n += len(block.logs)
    return total / max(n, 1)


def _discounts(n: int) -> Float64:
    return 1 / np.log2(np.arange(2, n + 2))


def _entries(X: Csr, entries: Array) -> Csr:
    """Return X with only the marked entries."""
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    kept = sparse.csr_array((X.data[entries], (users[entries], X.indices[entries])), shape=X.shape)
    return with_narrow_indices(kept)
