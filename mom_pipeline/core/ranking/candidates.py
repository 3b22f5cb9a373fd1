"""The parts of the score at the few hundred items that any part puts on top, for many settings.

What is tried when weights are chosen (`choose.py`), and how good the lists are with given weights.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mom_pipeline.core.evaluation.metrics import metrics_of_hits
from mom_pipeline.core.moments.cooccurrences import count_cooccurrences
from mom_pipeline.core.moments.users import Users
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.parts import Histories, Own, Pairs, Popularity
from mom_pipeline.core.ranking.recency import TrendPass
from mom_pipeline.core.ranking.score import RankingWeights, best_unseen, combined
from mom_pipeline.core.ranking.topn import Scorer, hide_seen, top_n
from mom_pipeline.core.types import Array, Csr, Float64

CUTOFF = 20
# What the search tries for each setting.
GRID: dict[str, tuple[float, ...]] = {
    "user_exponent": (0.5, 1.0),
    "sharpness": (1.0, 1.5, 2.0),
    "candidate_exponent": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    "history_exponent": (0.3, 0.4, 0.5, 0.6, 0.75, 0.9),
    "low_pass_ridge": (0.0, 1.0, 3.0, 10.0, 30.0, 100.0),
    "low_pass": (0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 4.0),
    "ease_ridge": (0.2, 1.0, 5.0, 20.0),
    "ease": (0.0, 0.2, 0.5, 1.0, 2.0, 4.0),
    "components": (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0),
    "pairs": (0.0, 0.3, 1.0),
    "popularity": (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
    "own": (0.0, 0.3, 1.0, 3.0),
    "trend": (0.0, 0.25, 0.5, 0.75, 1.0),
    "trend_half_life": (3.0, 7.0, 14.0, 30.0, 60.0, 120.0),
}
# The settings that each part is scored with; its weight has the part's name.
SETTINGS_OF = {
    "pairs": ("user_exponent", "sharpness", "history_exponent", "candidate_exponent"),
    "ease": ("ease_ridge",),
    "low_pass": ("user_exponent", "low_pass_ridge"),
    "components": (),
    "popularity": (),
    "own": (),
}
_CANDIDATES_PER_PART = 100
# Parts with their settings that a block keeps divided by the best item, at some 300 kB each.
_SCALED_KEPT = 64

# A part's name and the settings that it was scored with: ("ease", 5.0), ("components",).
PartKey = tuple[str | float, ...]


@dataclass(frozen=True)
class SearchParts:
    """The parts with every setting that the grid asks for; from the training part of a split.

    pairs: one for each user exponent and sharpness.  history_exponents: to try with each of them.
    ease: by ridge; empty where it has no weight.
    low_pass: by user exponent.  low_pass_ridges: to try with each of them.
    trends: by half-life, (D,) each; empty where the days are not known.
    """

    pairs: tuple[Pairs, ...]
    history_exponents: tuple[float, ...]
    ease: dict[float, Ease]
    low_pass: dict[float, LowPass]
    low_pass_ridges: tuple[float, ...]
    components: Scorer
    trends: dict[float, Array] = field(default_factory=dict)

    @classmethod
    def from_users(
        cls,
        users: Users,
        grid: Mapping[str, Sequence[float]],
        low_pass: dict[float, LowPass],
        ease: dict[float, Ease],
        components: Scorer,
    ) -> "SearchParts":
        """Make the parts from the rows of all users; trends where their days are known."""
        counted = [Pairs.from_counts(count_cooccurrences(users, exponent)) for exponent in low_pass]
        half_lives = grid["trend_half_life"] if users.with_days else ()
        trends = {h: users.add_up(TrendPass(h)).relative() for h in half_lives}
        return cls(
            pairs=tuple(one.sharpened(power) for one in counted for power in grid["sharpness"]),
            history_exponents=tuple(grid["history_exponent"]),
            ease=ease,
            low_pass=low_pass,
            low_pass_ridges=tuple(grid["low_pass_ridge"]),
            components=components,
            trends={h: own.astype(np.float32) for h, own in trends.items()},
        )

    def at_best(self, X: Csr, exclude_seen: bool) -> tuple[Array, dict[PartKey, Array]]:
        """Return the best items of each part, and all parts with all settings at them.

        items: (users, candidates), rising, then -1.  The parts: (users, candidates) each, pairs
        without the candidate's scale, and under "seen" whether the item is one of the history.
        """
        rows = Histories(X, self.components)
        scores = self._scores(rows)
        leading = self._leading(rows, scores)
        if not exclude_seen:
            leading.append(Own().scores(rows))
        items = _tops(leading, X, exclude_seen)
        scores["seen",] = rows.once.toarray()
        scores["own",] = Own().scores(rows)
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
        """Return each part with its default settings, to be written to.

        Pairs, popularity and EASE also with each trend, which changes more than other settings do.
        """
        default = RankingWeights()
        sharpness = _nearest(default.sharpness, [pairs.sharpness for pairs in self.pairs])
        exponent = _nearest(default.history_exponent, self.history_exponents)
        leaders = [scores["components",].copy()]
        for pairs in self.pairs:
            if pairs.sharpness == sharpness:
                key = ("pairs", pairs.user_exponent, pairs.sharpness, exponent)
                leaders.append(scores[key] * pairs.candidate_scale(default.candidate_exponent))
        trending = [leaders[-1].copy(), Popularity(self.pairs[0].item_users).scores(rows)]
        if self.ease:
            trending.append(scores["ease", _nearest(default.ease_ridge, self.ease)])
            leaders.append(trending[-1].copy())
        leaders += [part * own for own in self.trends.values() for part in trending]
        for low_pass in self.low_pass.values():
            leaders.append(replace(low_pass, ridge=default.low_pass_ridge).scores(rows))
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
    trends: dict[float, Array]
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
        trends = {half_life: own[items] for half_life, own in parts.trends.items()}
        return cls(
            X.shape[0],
            users,
            items,
            no_item,
            seen,
            hits,
            test[users],
            parts.pairs,
            scores,
            trends,
        )

    def quality(self, w: RankingWeights) -> Float64:
        """Return the mean of Recall@20, nDCG@20 and MAP@20 of every user."""
        ones = np.ones(len(self.items))
        weighted = ((name, getattr(w, name)) for name in SETTINGS_OF)
        terms = ((name, weight, self._part(name, w), ones) for name, weight in weighted if weight)
        scores, _ = combined(terms, self.items.shape)
        if w.trend:
            scores *= self.trends[w.trend_half_life] ** np.float32(w.trend)
        scores[self.no_item] = -np.inf
        hits = _listed(scores, self.hits)
        values = metrics_of_hits(*hits, self.test, (CUTOFF,))
        quality = np.zeros(self.n_users)
        quality[self.users] = (values["recall"] + values["ndcg"] + values["map"])[:, 0] / 3
        return quality

    def _part(self, name: str, w: RankingWeights) -> Array:
        """Return a part with the settings of w, divided by the best unseen item of each user."""
        key = (name, *(getattr(w, setting) for setting in SETTINGS_OF[name]))
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


def _nearest(wanted: float, options: Iterable[float]) -> float:
    """Return the option nearest to what is wanted: itself unless settings were fixed."""
    return min(options, key=lambda option: abs(option - wanted))


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
