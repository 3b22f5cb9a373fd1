"""What a fitted model ranks with: co-occurrences, what is made of them, and days of the items."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.moments.cooccurrences import (
    MAX_PAIR_BYTES,
    Cooccurrences,
    count_cooccurrences,
)
from mom_pipeline.core.moments.users import Users
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.item_days import ItemDays
from mom_pipeline.core.ranking.low_pass import MAX_ITEMS, LowPass
from mom_pipeline.core.ranking.parts import UNDATED_EXPONENT, USER_EXPONENT, Pairs, Part
from mom_pipeline.core.ranking.score import LogitScore, RankingWeights, weights_from
from mom_pipeline.core.types import Array, Csr, Float64, SentPlain


@dataclass(frozen=True)
class PairRanking(SentPlain):
    """The second moment's share of a fitted model."""

    counts: Cooccurrences  # a sum over users, as the days
    ease: Ease  # made of the counts
    weights: RankingWeights
    days: ItemDays | None = None  # None where not known
    # made of all rows at a fit; not where days are known, or of large catalogues
    low_pass: LowPass | None = None

    @classmethod
    def from_users(
        cls,
        users: Users,
        weights: RankingWeights | None = None,
        *,
        seed: int = 0,
        max_pair_bytes: int = MAX_PAIR_BYTES,
    ) -> Self:
        counts, dated = count_cooccurrences(users, USER_EXPONENT, max_pair_bytes), users.with_days
        return cls(
            counts,
            Ease.from_counts(counts),
            weights or RankingWeights(),
            users.add_up(ItemDays.of) if dated else None,
            None if dated or users.shape[1] > MAX_ITEMS else LowPass.from_users(users, seed),
        )

    def update(
        self,
        removed: Csr,
        added: Csr,
        removed_days: Csr | None = None,
        added_days: Csr | None = None,
    ) -> Self:
        """Return the ranking without some rows and with others: (any, D), with their days."""
        D, days = added.shape[1], self.days
        if days is not None:
            if removed_days is None or added_days is None:
                raise InvalidInteractions(
                    "this model ranks by the days of the items too: give the days with the rows, "
                    "as in `fit`"
                )
            days = days.update(removed_days, added_days)
        counts = self.counts.update(removed, added)
        low_pass = None if self.low_pass is None else self.low_pass.with_items(D)
        ease = Ease.from_counts(counts)
        return replace(self, counts=counts, ease=ease, days=days, low_pass=low_pass)

    @cached_property
    def pairs(self) -> Pairs:
        return Pairs.from_counts(self.counts)

    @cached_property
    def item_features(self) -> dict[str, Float64]:
        """The features of the item alone, name -> (D,)."""
        users = np.log1p(self.counts.item_users.astype(np.float64))
        if self.days is None:
            return {"users": users}
        days = self.days.features()
        late = {
            name.replace("users", "trend"): v - users for name, v in days.items() if "_" in name
        }
        return {"users": users, **late, "quiet": days["quiet"]}

    @cached_property
    def score(self) -> LogitScore:
        parts: tuple[Part, ...] = (self.pairs, self.ease)
        if self.days is not None:
            return LogitScore(parts, self.weights, self.item_features, self.days.newest)
        parts = (replace(self.pairs, history_exponent=UNDATED_EXPONENT), self.ease)
        parts = parts if self.low_pass is None else (*parts, self.low_pass)
        return LogitScore(parts, self.weights, self.item_features, least_share=0.5)

    def require_items(self, n_items: int) -> None:
        """Raise ValueError unless every array is of so many items."""
        lengths = {self.counts.n_items, *self.ease.matrix.entries.shape}
        if self.low_pass is not None:
            lengths |= {len(self.low_pass.item_scale), len(self.low_pass.basis)}
        if self.days is not None:
            lengths |= {self.days.n_items}
        if lengths != {n_items}:
            raise ValueError("the pair ranking is of another number of items")

    def as_arrays(self) -> dict[str, Array]:
        others = (self.ease, self.days, self.low_pass)
        arrays = self.counts.as_arrays()
        for part in others:
            arrays |= {} if part is None else part.as_arrays()
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], weights: Mapping[str, Any]) -> Self:
        """Read what `as_arrays` named; EASE is made again where it was not stored."""
        counts = Cooccurrences.from_arrays(arrays)
        D, stored = counts.n_items, "ease_data" in arrays
        ease = Ease.from_arrays(arrays).with_items(D) if stored else Ease.from_counts(counts)
        low_pass = LowPass.from_arrays(arrays).with_items(D) if "low_pass_rows" in arrays else None
        days = ItemDays.from_arrays(arrays) if "item_days" in arrays else None
        return cls(counts, ease, weights_from(weights), days, low_pass)
