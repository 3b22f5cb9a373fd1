"""Choosing the weights of the three-moment ranking on a held-out part of the training data."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.metrics import evaluate_ranking
from mom_pipeline.core.prediction import Scorer, hide_seen, top_n
from mom_pipeline.core.ranking import LowPass, PairScores, RankingWeights
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.core.validation import with_narrow_indices

# What the search tries for each setting.
GRID: dict[str, tuple[float, ...]] = {
    "history_exponent": (0.3, 0.4, 0.5, 0.6, 0.7),
    "candidate_exponent": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    "low_pass_rank": (64, 128, 256, 512),
    "low_pass": (0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 4.0),
    "classes": (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0),
    "pairs": (0.0, 0.3, 1.0),
    "popularity": (0.0, 0.02, 0.05, 0.1, 0.2, 0.5),
}
# Users to ask about: more cost time, fewer leave the choice to chance.
MAX_USERS = 3000
_SWEEPS = 3
_CUTOFF = 20
_CANDIDATES_PER_PART = 100
_HELD_OUT_SHARE = 0.2
_SCORES_PER_BLOCK = 4_000_000


@dataclass(frozen=True)
class HeldOut:
    """A split of the interactions.

    train: (N, D) what is left.  users: positions of the users to ask about.
    test: (len(users), D) what was hidden of them.
    """

    train: Csr
    users: Array
    test: Csr


@dataclass(frozen=True)
class Choice:
    """The chosen weights, and the mean of Recall@20 and nDCG@20 that they reached."""

    weights: RankingWeights
    quality: float
    n_users: int
    evaluations: int


def hold_out(X: Csr, rng: np.random.Generator, *, max_users: int = MAX_USERS) -> HeldOut | None:
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
    return HeldOut(_kept(X, ~hidden), users, _kept(X, hidden)[users])


def given_split(X: Csr, test: Csr, rng: np.random.Generator) -> HeldOut:
    """Use later interactions of the same users as what is to be found. X, test: (N, D)."""
    if test.shape[0] != X.shape[0]:
        raise InvalidInteractions(
            f"held_out must have the {X.shape[0]} users of the training data, "
            f"found {test.shape[0]} rows"
        )
    users = np.flatnonzero((np.diff(test.indptr) > 0) & (np.diff(X.indptr) > 0))
    if len(users) == 0:
        raise InvalidInteractions("no user of held_out has a history in the training data")
    users = np.sort(rng.permutation(users)[:MAX_USERS])
    return HeldOut(X, users, test[users])


def choose_weights(
    held_out: HeldOut,
    low_pass: LowPass,
    classes: Scorer,
    progress: Callable[[float], None] = lambda share: None,
) -> Choice:
    """Search the grid, one setting at a time, for the best mean of Recall@20 and nDCG@20.

    The search begins at the defaults and moves only for a gain beyond its standard error.

    low_pass and classes must come from `held_out.train`. Every part is scored once, and kept
    for the few hundred candidates of each user that any part puts on top; the search only adds.
    """
    parts = _score_candidates(held_out, low_pass, classes, progress)
    weights = RankingWeights(low_pass_rank=max(parts.low_pass))
    reached, evaluations = parts.quality(weights), 1
    for _ in range(_SWEEPS):
        before = weights
        for name, options in GRID.items():
            rivals = [
                RankingWeights(**{**asdict(weights), name: option})
                for option in (parts.low_pass if name == "low_pass_rank" else options)
            ]
            qualities = [parts.quality(rival) for rival in rivals]
            evaluations += len(rivals)
            best = max(range(len(rivals)), key=lambda i: float(qualities[i].mean()))
            if _is_clear_gain(qualities[best] - reached):
                reached, weights = qualities[best], rivals[best]
        if weights == before:
            break
    return Choice(weights, float(reached.mean()), len(held_out.users), evaluations)


def _is_clear_gain(gains: Array) -> bool:
    """Tell whether the users' mean gain exceeds its standard error: no chasing of noise."""
    return float(gains.mean()) > float(gains.std()) / np.sqrt(len(gains))


@dataclass(frozen=True)
class _Candidates:
    """Every part of the score at the candidates of each user: (users, candidates) each.

    items: positions, -1 for none.  pairs: by history exponent.  low_pass: by rank.
    """

    items: Array
    item_users: Array
    pairs: dict[float, Array]
    low_pass: dict[int, Array]
    classes: Array
    test: Csr

    def quality(self, w: RankingWeights) -> Float64:
        """Return the mean of Recall@20 and nDCG@20 of every user."""
        pairs = self.pairs[w.history_exponent] * self.item_users**-w.candidate_exponent
        scores = w.pairs * self._scaled(pairs)
        scores += w.low_pass * self._scaled(self.low_pass[w.low_pass_rank])
        scores += w.classes * self._scaled(self.classes)
        scores += w.popularity * self._scaled(self.item_users)
        scores[self.items < 0] = -np.inf
        columns, _ = top_n(scores, _CUTOFF)
        ids = np.where(columns < 0, -1, np.take_along_axis(self.items, columns, axis=1))
        metrics = evaluate_ranking(ids, self.test, [_CUTOFF])
        return (metrics.per_user["recall"][:, 0] + metrics.per_user["ndcg"][:, 0]) / 2

    def _scaled(self, part: Array) -> Array:
        best = np.where(self.items < 0, 0, part).max(axis=1, keepdims=True)
        return np.asarray(part / np.where(best > 0, best, 1.0))


def _score_candidates(
    held_out: HeldOut, low_pass: LowPass, classes: Scorer, progress: Callable[[float], None]
) -> _Candidates:
    """Score all items in small blocks of users, and keep the candidates."""
    rows = held_out.train[held_out.users]
    exponents = list(GRID["history_exponent"])
    full_rank = low_pass.basis.shape[1]
    ranks = sorted({min(int(rank), full_rank) for rank in GRID["low_pass_rank"]})
    default = RankingWeights()
    pairs = PairScores.of(held_out.train)
    item_users = np.maximum(pairs.item_users, 1.0)
    discount = (item_users**-default.candidate_exponent).astype(np.float32)
    step = max(1, min(64, _SCORES_PER_BLOCK // rows.shape[1]))
    starts = range(0, rows.shape[0], step)
    done = iter(range(1, len(starts) + 1))

    def block(start: int) -> _Candidates:
        X = rows[start : start + step]
        pair_parts = dict(zip(exponents, _history_sums(pairs, X, exponents), strict=True))
        low_pass_parts = {rank: low_pass.scores(X, rank) for rank in ranks}
        class_part = classes(X)
        default_pairs = pair_parts[default.history_exponent] * discount
        items = _tops([default_pairs, low_pass_parts[ranks[-1]], class_part], X)

        def at_items(part: Array) -> Array:
            return np.take_along_axis(part, np.maximum(items, 0), axis=1)

        progress(next(done) / len(starts))
        return _Candidates(
            items=items,
            item_users=item_users[np.maximum(items, 0)],
            pairs={exponent: at_items(part) for exponent, part in pair_parts.items()},
            low_pass={rank: at_items(part) for rank, part in low_pass_parts.items()},
            classes=at_items(class_part),
            test=held_out.test[start : start + step],
        )

    return _stacked(map_blocks(block, starts))


def _history_sums(scores: PairScores, X: Csr, exponents: list[float]) -> Array:
    """Return the history sums of a block of users: (exponents, users, D)."""
    return np.stack([sums.T for sums in scores.history_sums(X, exponents)], axis=1)


def _tops(parts: list[Array], X: Csr) -> Array:
    """Return the items that any part puts on top, each once, then -1: (users, candidates)."""
    best = []
    for part in parts:
        unseen = part.copy()
        hide_seen(unseen, X)
        best.append(top_n(unseen, _CANDIDATES_PER_PART)[0])
    items = np.sort(np.hstack(best), axis=1)
    items[:, 1:][items[:, 1:] == items[:, :-1]] = -1
    return items


def _stacked(blocks: list[_Candidates]) -> _Candidates:
    """Put the blocks of users below each other."""
    first = blocks[0]
    return _Candidates(
        items=np.vstack([b.items for b in blocks]),
        item_users=np.vstack([b.item_users for b in blocks]),
        pairs={power: np.vstack([b.pairs[power] for b in blocks]) for power in first.pairs},
        low_pass={rank: np.vstack([b.low_pass[rank] for b in blocks]) for rank in first.low_pass},
        classes=np.vstack([b.classes for b in blocks]),
        test=sparse.csr_array(sparse.vstack([b.test for b in blocks], format="csr")),
    )


def _kept(X: Csr, entries: Array) -> Csr:
    """Return X with only the marked entries."""
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    kept = sparse.csr_array((X.data[entries], (users[entries], X.indices[entries])), shape=X.shape)
    return with_narrow_indices(kept)
