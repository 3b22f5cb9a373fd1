"""`DayState`: moments, components and model of each day, read and written as typed values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np

from mom_pipeline.artifacts.day_artifacts import THREE_MOMENT, Expired, StaleArtifact
from mom_pipeline.artifacts.day_matrices import DayMatrices
from mom_pipeline.artifacts.store import Artifact
from mom_pipeline.core.algorithm.decompose import Components
from mom_pipeline.core.algorithm.whitening import Whitening
from mom_pipeline.core.day_rows import IN_MEMORY, Engine
from mom_pipeline.core.evaluation.backtest import Backtest
from mom_pipeline.core.evaluation.split_half import SplitHalf
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import changed_rows, grown
from mom_pipeline.core.linear_algebra.half_precision import from_half, to_half
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.days import (
    AnchoredPairs,
    DayStep,
    Yesterday,
)
from mom_pipeline.core.moments.pair_counts import PairCounts
from mom_pipeline.core.moments.sums import users_per_item
from mom_pipeline.core.moments.users import Users
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.low_pass import LowPass, scaled_pairs
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.types import Array
from mom_pipeline.settings import Settings
from mom_pipeline.settings.chosen import ChosenSettings

Parents = Mapping[str, str]
# Significant bits that an old day keeps of O: rounding to .2 %.
_OLD_BITS = 9


class DayState(DayMatrices):
    """The artifacts of one data folder, read and written as what they mean."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._stored_anchor: _StoredAnchor | None = None
        # Of the day at hand, of the one whose lists are kept and of the one that is judged.
        self._rankings: dict[tuple[str, RankingWeights], PairRanking] = {}

    def write_anchor(self, day: date, step: DayStep, users: Users, parents: Parents) -> str:
        """Store what a rebuild fixes, and return its version.

        With the pairs of the day's users and what the ranking has made of them: the low-pass and
        EASE parts hold until the next rebuild.
        """
        anchor, chosen = step.anchor, self.chosen(day)
        arrays = {
            "basis": anchor.basis,
            "item_scale": anchor.item_scale,
            "frequent_items": anchor.frequent_items,
        }
        if step.pairs is not None:
            weights, pair_bytes = chosen.ranking, self.settings.rebuild.pair_bytes
            arrays |= step.pairs.base.as_arrays()
            if weights.low_pass:
                arrays |= _low_pass(users, chosen).as_arrays()
            if weights.ease:
                arrays |= Ease.from_users(users, weights.ease_ridge, pair_bytes).as_arrays()
        return self.write("anchor", day, arrays, parents, {}).version

    def write_sums(
        self,
        day: date,
        sums: AnchoredSums,
        pairs: AnchoredPairs | None,
        parents: Parents,
        metadata: Mapping[str, Any],
        *,
        sound: bool,
    ) -> Artifact:
        """Store the sums of a day, under an anchor that is stored already."""
        arrays = sums.as_arrays()
        if pairs is not None:
            arrays |= pairs.change.as_arrays()
        return self.write("m2_statistics", day, arrays, parents, metadata, sound=sound)

    def write_moments(
        self,
        day: date,
        step: DayStep,
        users: Users,
        matrix: str,
        before: Artifact | None,
        metadata: Mapping[str, Any],
        *,
        sound: bool,
    ) -> Artifact:
        """Store the sums of a day, and the anchor where the day was computed in full.

        matrix: version of the day's matrix.  before: yesterday's sums, whose anchor is kept.
        """
        parents = {"interaction_matrix": matrix}
        if step.reason or before is None:
            anchor, anchor_day = self.write_anchor(day, step, users, parents), day.isoformat()
        else:
            anchor, anchor_day = before.parents["anchor"], before.metadata["anchor_day"]
        parents, facts = {**parents, "anchor": anchor}, {**metadata, "anchor_day": anchor_day}
        return self.write_sums(day, step.sums, step.pairs, parents, facts, sound=sound)

    def moments(self, day: date) -> tuple[Anchor, AnchoredSums, Artifact]:
        """The sums of a day with their anchor, made from its present matrix."""
        artifact = self.built_on("m2_statistics", day, "interaction_matrix")
        return *self.moments_in(artifact), artifact

    def moments_in(self, artifact: Artifact) -> tuple[Anchor, AnchoredSums]:
        """The sums that an artifact holds, with their anchor."""
        sums = sums_in(artifact)
        return self.anchor_in(artifact).with_items(len(sums.first.item_users)), sums

    def anchor_in(self, artifact: Artifact) -> Anchor:
        """The anchor that sums were made with."""
        return self._anchor_of(artifact).anchor

    def pairs_in(self, artifact: Artifact) -> AnchoredPairs | None:
        """The pairs as of the sums that an artifact holds; None where none were kept."""
        if "pair_steps" not in artifact.dense:
            return None if "triples" in artifact.dense else self._earlier_pairs(artifact)
        change = PairCounts.from_arrays(artifact.dense)
        return AnchoredPairs(self._anchor_of(artifact).pairs, change)

    def _earlier_pairs(self, artifact: Artifact) -> AnchoredPairs:
        """The pairs of an old day: those of a later one, less what came or went in between."""
        later = self._later_with_pairs(artifact)
        pairs, X_later = self.pairs_in(later), self.rows(later.day).X
        if pairs is None:
            raise StaleArtifact(f"m2_statistics of {later.day} was made for another ranking")
        X = grown(self.rows(artifact.day).X, X_later.shape)
        changed = changed_rows(X, X_later)
        change = pairs.update(X_later[changed], X[changed]).change
        return replace(pairs, change=change.among_first(len(artifact.dense["item_users"])))

    def _later_with_pairs(self, artifact: Artifact) -> Artifact:
        """The next day of the same anchor whose pairs are stored; Expired where there is none."""
        asset = artifact.asset
        for day in self.artifacts.days(asset):
            if day > artifact.day:
                later = self.fitting(asset, day, with_arrays=False)
                if later.parents["anchor"] != artifact.parents["anchor"]:
                    break
                if self.artifacts.holds(asset, day, "pair_steps"):
                    return self.fitting(asset, day)
        raise Expired(f"the pairs of {artifact.day} were removed, since it is old")

    def yesterday(self, day: date) -> tuple[Yesterday, Artifact]:
        """Rows and sums of the day before; StaleArtifact when they cannot be used."""
        before = self.day_before(day)
        if not self.chosen(day).same_moments(self.chosen(before)):
            raise StaleArtifact(f"other settings were chosen than those of {before}")
        anchor, sums, artifact = self.moments(before)
        return Yesterday(self.rows(before).X, anchor, sums, self.pairs_in(artifact)), artifact

    def whitening(self, day: date) -> tuple[Whitening, Artifact]:
        """The whitening of a day inside the span of its anchor."""
        artifact = self.built_on("whitening_matrix", day, "m2_statistics")
        factors, spectrum = artifact.dense["factors"], artifact.dense["spectrum"]
        return Whitening(factors, spectrum, self.chosen(day).model.n_components), artifact

    def with_components(self, day: date, anchor: Anchor, anchor_version: str) -> Anchor:
        """The anchor with the components of its own day, where a day's decomposition starts.

        Without any when yesterday was seen through another anchor: then the day finds its own.
        """
        try:
            before = self.fitting("decomposition", self.day_before(day))
        except StaleArtifact:
            return anchor
        if before.parents["anchor"] != anchor_version or "anchor_components" not in before.arrays:
            return anchor
        return replace(
            anchor,
            components=before.dense["anchor_components"],
            half_components=before.dense["half_components"],
        )

    def write_components(
        self,
        day: date,
        components: Components,
        halves: SplitHalf,
        anchor: Anchor,
        parents: Mapping[str, str],
        metadata: Mapping[str, Any],
        *,
        sound: bool,
    ) -> Artifact:
        """Store O, pi and where the next day starts from.

        O in single precision: rounding is far below the statistical error. And with fewer digits,
        for the time when the day is old.
        """
        start, half_starts = anchor.components, anchor.half_components
        if start is None:
            start, half_starts = components.in_span, halves.components.astype(np.float32)
        probs, exponents = to_half(components.item_probs, _OLD_BITS)
        arrays = {
            "item_probs": components.item_probs.astype(np.float32, copy=False),
            "rounded_probs": probs,
            "rounded_exponents": exponents,
            "weights": components.weights,
            "lambdas": components.decomposition.lambdas,
            "anchor_components": start,
            "half_components": half_starts,
        }
        return self.write("decomposition", day, arrays, parents, metadata, sound=sound)

    def write_backtest(self, day: date, backtest: Backtest, parents: Mapping[str, str]) -> None:
        """Store how an earlier model did up to a day, for the gate."""
        self.write("evaluation_metrics", day, backtest.as_arrays(), parents, {})

    def backtest(self, day: date, model_day: date) -> Backtest | None:
        """How the present model of `model_day` did up to a day; None where that is not known."""
        try:
            artifact = self.fitting("evaluation_metrics", day)
        except StaleArtifact:
            return None
        if artifact.parents["decomposition"] != self.artifacts.version("decomposition", model_day):
            return None
        return Backtest.from_arrays(artifact.dense)

    def model(
        self, day: date, engine: Engine = IN_MEMORY, *, with_pairs: bool = True
    ) -> tuple[FittedModel, Artifact]:
        """The model of a day, ready to personalize and to recommend.

        engine: who visits the users of a day whose moments have expired.
        with_pairs: False for the components alone, whatever the ranking is.
        """
        artifact, settings = self.fitting("decomposition", day), self.chosen(day).model
        with_pairs = with_pairs and settings.ranking == THREE_MOMENT
        try:
            sums = self.built_on("m2_statistics", day, "interaction_matrix")
            item_users = sums.dense["item_users"]
            pairs = self._pair_ranking(day, sums) if with_pairs else None
        except Expired:
            rows = self.rows(day)
            item_users = users_per_item(rows.X)
            pairs = self._ranking_of_users(day, engine.users(rows)) if with_pairs else None
        model = FittedModel(
            item_probs=item_probs_in(artifact),
            weights=artifact.dense["weights"],
            popularity=item_users / item_users.sum(),
            personalization=Personalization.from_settings(settings),
            pair_ranking=pairs,
            rows=settings.rows,
        )
        return model, artifact

    def listing_day(self, day: date) -> date:
        """The day whose model made the lists as of a day; that day itself where none did."""
        try:
            personalized = self.fitting("user_personalization", day, with_arrays=False)
        except StaleArtifact:
            return day
        return date.fromisoformat(personalized.metadata["model_day"])

    def _ranking_of_users(self, day: date, users: Users) -> PairRanking:
        """The pairs as of a day whose moments have expired: counted again."""
        chosen, most = self.chosen(day), self.settings.rebuild.pair_bytes
        low_pass = _low_pass(users, chosen) if chosen.ranking.low_pass else None
        return PairRanking.from_users(users, low_pass, chosen.ranking, max_pair_bytes=most)

    def _pair_ranking(self, day: date, sums: Artifact) -> PairRanking:
        """The pairs as of a day, with the low-pass and EASE parts of its anchor's day."""
        weights = self.chosen(day).ranking
        known = self._rankings.get((sums.version, weights))
        if known is not None:
            return known
        ranking = self._read_ranking(day, sums, weights)
        self._rankings = {**dict([*self._rankings.items()][-2:]), (sums.version, weights): ranking}
        return ranking

    def _read_ranking(self, day: date, sums: Artifact, weights: RankingWeights) -> PairRanking:
        pairs, fixed = self.pairs_in(sums), self._anchor_of(sums)
        lacking = (weights.ease and not fixed.has_ease) or (
            weights.low_pass and not fixed.has_low_pass
        )
        if pairs is None or lacking:
            raise StaleArtifact(f"m2_statistics of {day} was made for another ranking")
        D = pairs.counts.n_items
        return PairRanking(
            pairs.counts,
            fixed.low_pass.with_items(D) if weights.low_pass else None,
            weights,
            fixed.ease.with_items(D) if weights.ease else None,
            PairRanking.trend_of(self.last_days(day) if weights.trend else None, weights),
        )

    def _anchor_of(self, sums: Artifact) -> "_StoredAnchor":
        """The anchor that the sums were made with, kept in memory from day to day."""
        wanted, day = sums.parents["anchor"], date.fromisoformat(sums.metadata["anchor_day"])
        known = self._stored_anchor
        if known is None or known.artifact.version != wanted:
            artifact = self.fitting("anchor", day)
            if artifact.version != wanted:
                raise StaleArtifact(f"the anchor of {day} was replaced since {sums.day}")
            # Of the sums' own day: sums are kept while the settings that they depend on are the
            # same, and the choice of an old day may be gone while its anchor is in use.
            arrays, estimator = artifact.dense, self.moment_settings(sums.day).estimator
            anchor = Anchor(
                arrays["basis"], arrays["item_scale"], estimator, arrays["frequent_items"]
            )
            known = self._stored_anchor = _StoredAnchor(artifact, anchor)
        return known


@dataclass(frozen=True)
class _StoredAnchor:
    """What a rebuild fixed, each part made ready when a day first needs it."""

    artifact: Artifact
    anchor: Anchor

    @property
    def has_low_pass(self) -> bool:
        return "low_pass_rows" in self.artifact.dense

    @property
    def has_ease(self) -> bool:
        return "ease_data" in self.artifact.dense

    @cached_property
    def pairs(self) -> PairCounts:
        """Those of the anchor's day."""
        return PairCounts.from_arrays(self.artifact.dense)

    @cached_property
    def low_pass(self) -> LowPass:
        return LowPass.from_arrays(self.artifact.dense)

    @cached_property
    def ease(self) -> Ease:
        return Ease.from_arrays(self.artifact.dense)


def item_probs_in(artifact: Artifact) -> Array:
    """O of a day, (D, K), single precision; of an old day within .2 %."""
    arrays = artifact.dense
    if "item_probs" in arrays:
        return np.asarray(arrays["item_probs"])
    O = from_half(arrays["rounded_probs"], arrays["rounded_exponents"])
    return np.asarray(O / O.sum(axis=0, dtype=np.float64).astype(np.float32))


def sums_in(artifact: Artifact) -> AnchoredSums:
    """The sums of a day; Expired where it keeps only what the ranking needs."""
    if "triples" not in artifact.arrays:
        raise Expired(
            f"{artifact.asset} of {artifact.day} cannot be built upon: its sums were removed, "
            "since it is old (artifacts.moment_megabytes)"
        )
    return AnchoredSums.from_arrays(artifact.dense)


def _low_pass(users: Users, chosen: ChosenSettings) -> LowPass:
    weights, rng = chosen.ranking, np.random.default_rng(chosen.model.seed)
    pairs = scaled_pairs(users, weights.user_exponent, weights.low_pass_scaling)
    return LowPass.from_pairs(pairs, rng)
