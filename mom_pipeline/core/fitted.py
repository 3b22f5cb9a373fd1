"""The fitted model: all that is needed to personalize, to recommend and to update."""

import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from mom_pipeline.core.errors import DamagedModel, MomError
from mom_pipeline.core.interactions import RowsName, weighted_rows
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.persistence import load_arrays, save_arrays
from mom_pipeline.core.ranking.exact_top import ExactTop
from mom_pipeline.core.ranking.list_rules import NO_RULES, ListRules
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.parts import Histories
from mom_pipeline.core.ranking.score import ComponentsScore, RankingName, ranking_name
from mom_pipeline.core.ranking.topn import BestItems, Progress, most_popular
from mom_pipeline.core.types import Array, Csr, Float64, SentPlain

# Columns of probabilities may miss 1 by rounding in single precision, not by more.
_SUM_TOLERANCE = 1e-3
_DISTRIBUTIONS = ("item_probs", "weights", "popularity")


@dataclass(frozen=True)
class FittedModel(SentPlain):
    """The components, the popularity, and what ranks with them."""

    item_probs: Array  # O, (D, K)
    weights: Float64  # pi, (K,)
    popularity: Float64  # (D,) share of all interactions
    personalization: Personalization
    pair_ranking: PairRanking | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    anchor: Anchor | None = None  # None in a model that only answers, as the sums
    sums: AnchoredSums | None = None
    rows: RowsName = "counts"  # how the components read counts; see `weighted_rows`
    list_rules: ListRules = NO_RULES  # what a list may hold beside the score; not stored

    @property
    def candidates(self) -> Array:
        """The items that a list may hold, (D,) of bool."""
        taken, hidden = self.popularity > 0, self.list_rules.hidden
        return taken if hidden is None else taken & ~hidden

    def excluding(self, items: Collection[str], item_ids: Array) -> Self:
        """Return the model whose lists hold none of some items. item_ids: (D,) text."""
        if not items:
            return self
        hidden = np.array([str(item) in items for item in item_ids[: self.n_items]], dtype=bool)
        return replace(self, list_rules=replace(self.list_rules, hidden=hidden))

    @property
    def n_items(self) -> int:
        return len(self.item_probs)

    @property
    def ranking(self) -> RankingName:
        """What the model was fitted to rank by."""
        return "components" if self.pair_ranking is None else "three-moment"

    @cached_property
    def smoothed_item_probs(self) -> Array:
        """O with a share of popularity, positive everywhere."""
        return smoothed(self.item_probs, self.popularity, self.personalization.smoothing)

    def memberships(self, X: Csr) -> Array:
        """Return P[component | user], (N, K). X: counts."""
        X = weighted_rows(X, self.rows)
        return memberships(X, self.smoothed_item_probs, self.weights, self.personalization)

    def answering(self) -> Self:
        """Return the model with all that its answers need and nothing else."""
        if self.anchor is None and self.sums is None and not self.diagnostics:
            return self
        return replace(self, diagnostics={}, anchor=None, sums=None)

    def scores(
        self,
        X: Csr,
        ranking: str | None = None,
        *,
        exclude_seen: bool = True,
        last_days: Csr | None = None,
    ) -> Array:
        """Return the score of every item, (N, D); see `top` for the ranking."""
        rows = self.histories(X, last_days=last_days)
        return self.top(ranking).score(rows, exclude_seen=exclude_seen)[0]

    def best(
        self,
        X: Csr,
        n: int,
        *,
        exclude_seen: bool = True,
        last_days: Csr | None = None,
        ranking: str | None = None,
        only: Array | None = None,
        progress: Progress = lambda share: None,
    ) -> BestItems:
        """Return the n best items of every row, exactly those of the whole catalogue.

        X: (N, D).  last_days: (N, D), its days; without them all of a history counts alike.
        only: (D,) of bool, the items to choose among. One without users is no candidate.
        """
        rows, top = self.histories(X, last_days), self.top(ranking)
        top = top if only is None else top.among(only)
        return top.best(rows, n, exclude_seen=exclude_seen, progress=progress)

    def histories(self, X: Csr, last_days: Csr | None = None) -> Histories:
        """Return rows as the parts of the score read them; days are for a model that knows days."""
        dated = self.pair_ranking is not None and self.pair_ranking.days is not None
        return Histories(X, self.memberships, last_days if dated else None)

    def top(self, ranking: str | None = None) -> ExactTop:
        """Return what ranks, by the name of a ranking: None for what was fitted."""
        name = self.ranking if ranking is None else ranking_name(ranking)
        return self._by_components if name == "components" else self._by_three_moments

    def prepare(self) -> None:
        """Compute now what the first question would otherwise wait for."""
        _ = self.smoothed_item_probs

    @cached_property
    def _by_components(self) -> ExactTop:
        score = ComponentsScore(self.item_probs)
        return ExactTop(score, self.candidates, self.list_rules, self.similar)

    @cached_property
    def _by_three_moments(self) -> ExactTop:
        if self.pair_ranking is None:
            raise MomError(
                "this model was fitted for the components alone; fit it with ranking='three-moment'"
            )
        score = self.pair_ranking.score
        return ExactTop(score, self.candidates, self.list_rules, self.similar)

    def popular(self, n: int, top: ExactTop | None = None) -> tuple[Array, Float64]:
        """Return the n most popular items that a list may hold, and their shares times boosts."""
        top = self.top() if top is None else top
        shares = np.where(top.candidates, self.popularity, 0.0)
        shares = shares if top.rules.boosts is None else shares * top.rules.boosts
        if not top.rules.reorder:
            return most_popular(shares, n)
        items, shares = most_popular(shares, len(shares))
        own = top.rules.pick(items, shares / shares[:1].sum(), n, top.similar, whole=True)
        return items[own], shares[own]

    def similar(self, item: int) -> Array:
        """Return P[item and y] / sqrt(P[item] P[y]) of every item y, (D,).

        Counted where the model ranks with co-occurrences; else as its components imply,
        P[a and b] = sum_k pi_k P[a | k] P[b | k].
        """
        if self.pair_ranking is not None:
            pairs = self.pair_ranking.pairs
            scores = np.zeros(self.n_items)
            row = pairs.matrix.entries[[item]]
            scores[row.indices] = row.data.astype(np.float64)
            c = np.maximum(pairs.item_users, 1.0)
            return np.asarray(scores / np.sqrt(c[item] * c))
        O, pi = self.item_probs, self.weights.astype(self.item_probs.dtype)
        single = (O @ pi).astype(np.float64)
        both = (O @ (pi * O[item])).astype(np.float64)
        scale = np.sqrt(single[item] * single)
        return np.divide(both, scale, out=np.zeros_like(both), where=scale > 0)

    def save(self, path: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        """Write the model and the settings it was fitted with to one file."""
        arrays = {name: getattr(self, name) for name in _DISTRIBUTIONS}
        anchor, sums = self.anchor, self.sums
        if anchor is not None and anchor.components is not None and sums is not None:
            arrays["anchor_basis"], arrays["anchor_scale"] = anchor.basis, anchor.item_scale
            arrays["anchor_components"] = anchor.components
            arrays |= {f"sums_{name}": array for name, array in sums.as_arrays().items()}
        rule = asdict(self.personalization)
        own = {**settings, "personalization": rule.pop("rule"), **rule}
        header: dict[str, Any] = {"settings": own, "diagnostics": self.diagnostics}
        if self.pair_ranking is not None:
            header["ranking_weights"] = asdict(self.pair_ranking.weights)
            arrays |= self.pair_ranking.as_arrays()
        save_arrays(path, json.loads(json.dumps(header)), arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> tuple[Self, dict[str, Any]]:
        """Read a model and its settings; DamagedModel when the contents do not fit together."""
        header, arrays = load_arrays(path)
        try:
            settings = header["settings"]
            names = ("personalization", "temperature", "em_steps", "smoothing")
            personalization = Personalization(*(settings[name] for name in names))
            ranking = None
            if "ranking_weights" in header:
                ranking = PairRanking.from_arrays(arrays, header["ranking_weights"])
            fitted = cls(
                arrays["item_probs"],
                arrays["weights"],
                arrays["popularity"],
                personalization,
                ranking,
                header["diagnostics"],
                rows=settings["rows"],
                **_moments(settings, arrays),
            )
            fitted._check()
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DamagedModel(f"{path} does not hold a whole model: {error!r}") from error
        return fitted, settings

    def _check(self) -> None:
        D, K = self.item_probs.shape
        shapes = (self.weights.shape, self.popularity.shape)
        if shapes != ((K,), (D,)):
            raise ValueError(f"arrays of {D} items and {K} components expected, found {shapes}")
        for name in _DISTRIBUTIONS:
            array = getattr(self, name)
            sums = array.sum(axis=0, dtype=np.float64)
            if not (np.isfinite(array).all() and array.min() >= 0):
                raise ValueError(f"{name} has negative or non-finite entries")
            if np.abs(sums - 1).max() > _SUM_TOLERANCE:
                raise ValueError(f"{name} does not sum to 1")
        anchor = self.anchor
        if anchor is not None and (anchor.basis.shape[0], anchor.n_items) != (D, D):
            raise ValueError("the anchor is of another number of items")
        if self.pair_ranking is not None:
            self.pair_ranking.require_items(D)


def _moments(settings: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Return the anchor and the sums, where a file holds them."""
    if "anchor_basis" not in arrays:
        return {}
    own = {name: settings[name] for name in ("user_weight", "item_scaling", "rows")}
    estimator = Estimator.from_name(settings["estimator"], **own)
    basis, scale, components = (arrays[f"anchor_{n}"] for n in ("basis", "scale", "components"))
    sums = {name[5:]: array for name, array in arrays.items() if name.startswith("sums_")}
    return {
        "anchor": Anchor(basis, scale, estimator, components=components),
        "sums": AnchoredSums.from_arrays(sums),
    }
