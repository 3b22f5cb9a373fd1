"""What a fitted model ranks with besides its components: co-occurrences and parts made of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.moments.cooccurrences import (
    MAX_PAIR_BYTES,
    Cooccurrences,
    count_cooccurrences,
)
from mom_pipeline.core.moments.users import Users
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.parts import ComponentsPart, Own, Pairs, Part, Popularity
from mom_pipeline.core.ranking.recency import Trend, TrendPass
from mom_pipeline.core.ranking.score import RankingWeights, Score
from mom_pipeline.core.types import Array, Csr, SentPlain

PartT = TypeVar("PartT", Ease, LowPass)


@dataclass(frozen=True)
class PairRanking(SentPlain):
    """The second moment's share of a fitted model.

    counts, trend: sums over users, which changed users alone update.
    low_pass, ease: made from all rows at once and kept until these are read again; they say
    nothing about later items.  None: without weight, or days for the trend.
    """

    counts: Cooccurrences
    low_pass: LowPass | None
    weights: RankingWeights
    ease: Ease | None = None
    trend: Trend | None = None

    @classmethod
    def from_users(
        cls,
        users: Users,
        low_pass: LowPass | None,
        weights: RankingWeights,
        *,
        max_pair_bytes: int = MAX_PAIR_BYTES,
    ) -> Self:
        with_trend = users.with_days and weights.trend > 0
        return cls(
            counts=count_cooccurrences(users, weights.user_exponent, max_pair_bytes),
            low_pass=low_pass,
            weights=weights,
            ease=Ease.from_users(users, weights.ease_ridge, max_pair_bytes)
            if weights.ease
            else None,
            trend=users.add_up(TrendPass(weights.trend_half_life)) if with_trend else None,
        )

    @staticmethod
    def trend_of(last_days: Csr | None, weights: RankingWeights) -> Trend | None:
        """Return the trend of the items, where the weights ask for it. last_days: (N, D)."""
        if last_days is None or not weights.trend:
            return None
        return Trend.from_rows(last_days, weights.trend_half_life)

    def update(
        self,
        removed: Csr,
        added: Csr,
        removed_days: Csr | None = None,
        added_days: Csr | None = None,
    ) -> Self:
        """Return the ranking without some rows and with others: (any, D), with their days."""
        D, trend = added.shape[1], self.trend
        if trend is not None:
            if removed_days is None or added_days is None:
                raise InvalidInteractions(
                    "this model ranks by the trend of the items too: give the days with the rows, "
                    "as in `fit`"
                )
            trend = trend.update(removed_days, added_days)
        return replace(
            self,
            counts=self.counts.update(removed, added),
            low_pass=None if self.low_pass is None else self.low_pass.with_items(D),
            ease=None if self.ease is None else self.ease.with_items(D),
            trend=trend,
        )

    @cached_property
    def pairs(self) -> Pairs:
        w = self.weights
        return replace(
            Pairs.from_counts(self.counts, w.sharpness),
            history_exponent=w.history_exponent,
            candidate_exponent=w.candidate_exponent,
        )

    def score(self, item_probs: Array) -> Score:
        """Return the three-moment score, of the parts whose weight is not 0. item_probs: (D, K)."""
        w = self.weights
        parts: list[tuple[Part, float]] = []
        if w.popularity:
            parts.append((Popularity(self.pairs.item_users), w.popularity))
        if w.pairs:
            parts.append((self.pairs, w.pairs))
        if w.ease:
            parts.append((_made(self.ease, "EASE"), w.ease))
        if w.low_pass:
            low_pass = _made(self.low_pass, "low-pass")
            parts.append((replace(low_pass, ridge=w.low_pass_ridge), w.low_pass))
        if w.components:
            parts.append((ComponentsPart(item_probs), w.components))
        if w.own:
            parts.append((Own(), w.own))
        if not parts:  # every weight is 0: the most popular items
            parts.append((Popularity(self.pairs.item_users), 1.0))
        trend = None if self.trend is None else self.trend.factors(w.trend)
        return Score(tuple(parts), trend=trend)

    def require_items(self, n_items: int) -> None:
        """Raise ValueError unless every array is of so many items."""
        lengths = {self.counts.n_items}
        if self.low_pass is not None:
            rank, basis = len(self.low_pass.strengths), self.low_pass.basis
            lengths |= {len(self.low_pass.item_scale), len(basis)}
            if basis.shape[1] != rank:
                raise ValueError(f"a basis of {rank} columns expected, found {basis.shape}")
        if self.ease is not None:
            lengths |= set(self.ease.matrix.entries.shape)
        if self.trend is not None:
            lengths |= {len(self.trend.users), len(self.trend.recent)}
        if lengths != {n_items}:
            raise ValueError("the pair ranking is of another number of items")

    def as_arrays(self) -> dict[str, Array]:
        trend = {} if self.trend is None else self.trend.as_arrays()
        return self.counts.as_arrays() | self.smoothed_arrays() | trend

    def smoothed_arrays(self) -> dict[str, Array]:
        """Return the parts that are kept until the rows are read again, as named arrays."""
        parts = [part for part in (self.low_pass, self.ease) if part is not None]
        return {name: array for part in parts for name, array in part.as_arrays().items()}

    def with_smoothed(self, arrays: Mapping[str, Array]) -> Self:
        """Return the ranking with the parts that `smoothed_arrays` named."""
        low_pass = LowPass.from_arrays(arrays) if "low_pass_rows" in arrays else None
        ease = Ease.from_arrays(arrays) if "ease_data" in arrays else None
        D = self.counts.n_items
        return replace(
            self,
            low_pass=None if low_pass is None else low_pass.with_items(D),
            ease=None if ease is None else ease.with_items(D),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], weights: Mapping[str, Any]) -> Self:
        return cls(
            counts=Cooccurrences.from_arrays(arrays),
            low_pass=None,
            weights=RankingWeights(**weights),
            trend=Trend.from_arrays(arrays) if "trend_users" in arrays else None,
        ).with_smoothed(arrays)


def _made(part: PartT | None, name: str) -> PartT:
    if part is None:
        raise InvalidSetting(f"this model was fitted without the {name} part; fit it again")
    return part
