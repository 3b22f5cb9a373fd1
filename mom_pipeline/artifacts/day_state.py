"""`DayState`: the artifacts of each day, read and written as typed values.

What a later day starts from must have been made by the same settings and the same code, be
whole on disk, and have passed its checks. Otherwise `StaleArtifact` says why not, and the day is
computed in full.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.artifacts.dated_rows import DatedRows
from mom_pipeline.artifacts.scratch import array_in_file
from mom_pipeline.artifacts.store import Artifact, ArtifactStore
from mom_pipeline.core.algorithm.decompose import Components, DecomposeSettings
from mom_pipeline.core.algorithm.whitening import Whitening
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.evaluation.backtest import Backtest
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.days import (
    AnchoredPairs,
    DayStep,
    MomentSettings,
    Yesterday,
    width_for_days,
)
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.pair_counts import PairCounts
from mom_pipeline.core.moments.users import Users, UsersInMemory
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.low_pass import LowPass, scaled_pairs
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import NO_AGEING, RankingWeights
from mom_pipeline.core.types import Array
from mom_pipeline.errors import DamagedArtifact, ExpiredArrays
from mom_pipeline.settings import ModelSettings, Settings, fingerprint
from mom_pipeline.settings.chosen import ChosenSettings
from mom_pipeline.settings.sections import RebuildSettings

# Raised by one whenever the same rows would come out as other arrays, or with other facts.
CODE_VERSION = "8"

# Each asset with the one that it is made from, in order.
_CHAIN = (
    ("m2_statistics", "interaction_matrix"),
    ("whitening_matrix", "m2_statistics"),
    ("whitened_tensor", "whitening_matrix"),
    ("decomposition", "whitened_tensor"),
    ("user_personalization", "interaction_matrix"),
)
Parents = Mapping[str, str]
_THREE_MOMENT = "three-moment"
_TOO_LITTLE = "too_little"
_LISTED = "user_personalization"
# A matrix that is stored as a change of a whole one: the version of that among its parents, the
# day of it among the facts.
_WHOLE, _WHOLE_DAY = "whole_matrix", "whole_day"
# The largest whole matrix that stays in memory.
_KEPT_BYTES = 200_000_000


class StaleArtifact(MomError):
    """A stored day cannot be built upon; the message is the reason."""


class Expired(StaleArtifact):
    """The arrays of a stored day were removed, since it is old."""


class TooLittleYet(StaleArtifact):
    """The rows up to a day do not suffice for a model; the message is the reason."""


def moment_settings(
    model: ModelSettings, ranking: RankingWeights, rebuild: RebuildSettings
) -> MomentSettings:
    """The settings that sums depend on, for a method."""
    return MomentSettings(
        estimator=Estimator.from_name(model.estimator, rows=model.rows),
        n_components=model.n_components,
        anchor_width=rebuild.anchor_width or width_for_days(model.n_components),
        seed=model.seed,
        n_frequent=rebuild.frequent_items,
        halves=True,
        capture_threshold=rebuild.capture_threshold,
        pair_exponent=ranking.user_exponent if model.ranking == _THREE_MOMENT else None,
        pair_bytes=rebuild.pair_bytes,
        pair_drift=rebuild.pair_drift,
    )


@dataclass(frozen=True)
class DayRows:
    """The rows as of a day. X: (N, D).  last_days: (N, D), of the last event of every entry."""

    X: csr_array
    last_days: csr_array
    version: str


class DayState:
    """The artifacts of one data folder, read and written as what they mean."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Where a cluster visits the users, no process is to hold the rows of all of them.
        self._mapped = settings.engine.kind != "local"
        self.artifacts = ArtifactStore(settings.artifacts_dir, mapped=self._mapped)
        self._anchor: tuple[Artifact, Anchor] | None = None
        # The last two: an erasure needs one as it was and as it is.
        self._whole_rows: dict[str, DatedRows] = {}
        # Of the day at hand, of the one whose lists are kept and of the one that is judged.
        self._rankings: dict[tuple[str, RankingWeights], PairRanking] = {}

    def chosen(self, day: date) -> ChosenSettings:
        """The method of a day: as the settings stand, or as it was chosen on the logs."""
        if not self.settings.tuning.every_days:
            return ChosenSettings.as_they_stand(self.settings)
        artifact = self.fitting("chosen_settings", day, with_arrays=False)
        return ChosenSettings.from_dict(artifact.metadata["chosen"])

    def write_chosen(self, day: date, chosen: ChosenSettings, matrix: str) -> Artifact:
        """Store the method of a day. matrix: version of the day's matrix."""
        facts = {"chosen": chosen.as_dict()}
        return self.write("chosen_settings", day, {}, {"interaction_matrix": matrix}, facts)

    def moment_settings(self, day: date) -> MomentSettings:
        """The settings that the sums of a day depend on."""
        chosen = self.chosen(day)
        return moment_settings(chosen.model, chosen.ranking, self.settings.rebuild)

    def decompose_settings(self, day: date) -> DecomposeSettings:
        """The settings of steps 2 to 8 of Algorithm 1 on a day."""
        return DecomposeSettings.from_settings(self.chosen(day).model)

    def settings_of(self, asset: str) -> str:
        """Fingerprint of the settings that decide what an asset holds."""
        serving, own = self.settings.serving, self._settings_of(asset)
        left_out = (serving.leave_out_items, serving.leave_out_groups)
        # The lists are made from the memberships.
        return fingerprint(own, *left_out) if asset == _LISTED and any(left_out) else own

    def _settings_of(self, asset: str) -> str:
        matrix, model, ranking = self.settings.matrix, self.settings.model, self.settings.ranking
        if asset == "interaction_matrix":
            return fingerprint(matrix)
        rebuild = self.settings.rebuild
        moments = (matrix, model, rebuild.anchor_width)
        if self.settings.tuning.every_days:
            seen = self.settings.serving.exclude_seen
            return fingerprint(*moments, rebuild.pair_megabytes, ranking, self.settings.fixed, seen)
        if model.ranking != _THREE_MOMENT:
            return fingerprint(*moments)
        # The other weights decide the lists, which are made from the memberships, and no moment.
        everything = asset == _LISTED
        decisive = ranking if everything else ranking.anchored
        return fingerprint(*moments, rebuild.pair_megabytes, decisive)

    def write(
        self,
        asset: str,
        day: date,
        arrays: Mapping[str, Any],
        parents: Mapping[str, Any],
        metadata: Mapping[str, Any],
        *,
        sound: bool = True,
    ) -> Artifact:
        """Store what an asset made of a day. sound: whether its blocking checks passed."""
        notes = {**metadata, "code_version": CODE_VERSION, "sound": sound}
        settings = self.settings_of(asset)
        return self.artifacts.write(asset, day, arrays, settings, parents, notes)

    def write_too_little(self, asset: str, day: date, reason: str) -> None:
        """Store that a day has too little data for an asset, which is a result too."""
        if asset in dict(_CHAIN):
            parents = {"interaction_matrix": self.artifacts.version("interaction_matrix", day)}
            self.write(asset, day, {}, parents, {_TOO_LITTLE: reason}, sound=False)

    def too_little(self, day: date) -> str:
        """Why the present matrix of a day gave no model; "" where it did, or was not tried."""
        try:
            self.fitting("decomposition", day, with_arrays=False)
        except TooLittleYet as reason:
            made = self.artifacts.describe("decomposition", day)
            matrix = self.artifacts.version("interaction_matrix", day)
            return str(reason) if made.parents["interaction_matrix"] == matrix else ""
        except StaleArtifact:
            pass
        return ""

    def fitting(self, asset: str, day: date, *, with_arrays: bool = True) -> Artifact:
        """An artifact that can be built upon, or StaleArtifact with the reason."""
        if self.artifacts.version(asset, day) is None:
            raise StaleArtifact(f"there is no {asset} of {day}")
        read = self.artifacts.read if with_arrays else self.artifacts.describe
        try:
            artifact = read(asset, day)
        except ExpiredArrays as error:
            raise Expired(f"{asset} of {day} cannot be built upon: {error}") from error
        except DamagedArtifact as error:
            raise StaleArtifact(f"{asset} of {day} is damaged: {error}") from error
        made_by = artifact.metadata["code_version"]
        if made_by != CODE_VERSION:
            raise StaleArtifact(
                f"{asset} of {day} was made by code version {made_by}, not {CODE_VERSION}"
            )
        if artifact.settings_fingerprint != self.settings_of(asset):
            raise StaleArtifact(f"{asset} of {day} was made with other settings")
        if _TOO_LITTLE in artifact.metadata:
            raise TooLittleYet(artifact.metadata[_TOO_LITTLE])
        if not artifact.metadata["sound"]:
            raise StaleArtifact(f"{asset} of {day} did not pass its checks")
        self._require_whole(artifact)
        return artifact

    def _require_whole(self, artifact: Artifact) -> None:
        """Raise StaleArtifact when the whole matrix is gone that an artifact is a change of."""
        version = artifact.parents.get(_WHOLE)
        if version is None or version in self._whole_rows:
            return
        day = date.fromisoformat(artifact.metadata[_WHOLE_DAY])
        if self.artifacts.version("interaction_matrix", day) != version:
            raise StaleArtifact(
                f"{artifact.asset} of {artifact.day} is stored as a change of that of {day}, "
                "which was replaced or removed since"
            )

    def built_on(self, asset: str, day: date, parent: str, *, with_arrays: bool = True) -> Artifact:
        """A fitting artifact that was made from the parent as it is now."""
        artifact = self.fitting(asset, day, with_arrays=with_arrays)
        if artifact.parents[parent] != self.artifacts.version(parent, day):
            raise StaleArtifact(f"{asset} of {day} was made from an earlier {parent} of that day")
        return artifact

    def require_chain(self, day: date) -> None:
        """Raise StaleArtifact unless every artifact of a day is sound and made from the others
        as they are now.
        """
        self.fitting("interaction_matrix", day, with_arrays=False)
        for asset, parent in _CHAIN:
            self.built_on(asset, day, parent, with_arrays=False)

    def matrix(self, day: date) -> tuple[csr_array, str]:
        """The interaction matrix as of a day, and its version."""
        artifact = self.fitting("interaction_matrix", day)
        return self._rows_in(artifact).interactions.copy(), artifact.version

    def rows(self, day: date) -> DayRows:
        """The rows as of a day, with the days of their pairs; not to be written to."""
        artifact = self.fitting("interaction_matrix", day)
        rows = self._rows_in(artifact)
        return DayRows(rows.interactions, rows.last_days, artifact.version)

    def half_life(self, day: date) -> float:
        """How fast histories age, as the ranking of a day reads them; NO_AGEING for never."""
        chosen = self.chosen(day)
        three_moment = chosen.model.ranking == _THREE_MOMENT
        return chosen.ranking.history_half_life if three_moment else NO_AGEING

    def last_days(self, day: date) -> csr_array:
        """The day of the last event of every pair of the matrix as of a day."""
        return self.rows(day).last_days

    def _rows_in(self, artifact: Artifact) -> DatedRows:
        if _WHOLE not in artifact.parents:
            return self._keep_whole(artifact.version, DatedRows.from_arrays(artifact.arrays))
        whole = self._whole(artifact.metadata[_WHOLE_DAY], artifact.parents[_WHOLE])
        return whole.with_change(artifact.arrays, self._array)

    def _array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A new array: in memory, or in a file where rows are to stay in files."""
        if not self._mapped:
            return np.empty(shape, dtype)
        return array_in_file(self.settings, shape, dtype)

    def _whole(self, day: str, version: str) -> DatedRows:
        """The whole matrix that a change refers to, kept in memory from day to day."""
        known = self._whole_rows.get(version)
        if known is not None:
            return known
        return self._rows_in(self.fitting("interaction_matrix", date.fromisoformat(day)))

    def _keep_whole(self, version: str, rows: DatedRows) -> DatedRows:
        if rows.nbytes <= _KEPT_BYTES:
            self._whole_rows = {**dict([*self._whole_rows.items()][-1:]), version: rows}
        return rows

    def write_matrix(
        self, day: date, X: csr_array, last_days: csr_array, fingerprint: str
    ) -> Artifact:
        """Store the matrix as of a day, with the days of its pairs. fingerprint: of the logs."""
        rows, parents = DatedRows(X, last_days), {"raw_logs": fingerprint}
        whole = self._whole_before(day)
        change = None if whole is None else rows.since(self._whole(*whole))
        if whole is None or change is None:
            written = self.write("interaction_matrix", day, rows.as_arrays(), parents, {})
            self._keep_whole(written.version, rows)
            return written
        whole_day, version = whole
        parents[_WHOLE] = version
        facts = {_WHOLE_DAY: whole_day}
        return self.write("interaction_matrix", day, change, parents, facts)

    def _whole_before(self, day: date) -> tuple[str, str] | None:
        """Day and version of the matrix that a day's may be stored as a change of.

        None where there is none. Others may be changes of a day that is whole: it stays whole.
        """
        before = self.day_before(day)
        try:
            if self.artifacts.version("interaction_matrix", day) is not None:
                now = self.artifacts.describe("interaction_matrix", day)
                if _WHOLE not in now.parents:
                    return None
            stored = self.fitting("interaction_matrix", before, with_arrays=False)
            whole = stored.metadata.get(_WHOLE_DAY, before.isoformat())
            version = stored.parents.get(_WHOLE, stored.version)
            self._whole(whole, version)
        except (StaleArtifact, DamagedArtifact):
            return None
        return (whole, version) if before < day else None

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
        sums = AnchoredSums.from_arrays(artifact.dense)
        return self.anchor_in(artifact).with_items(len(sums.first.item_users)), sums

    def anchor_in(self, artifact: Artifact) -> Anchor:
        """The anchor that sums were made with."""
        return self._anchor_of(artifact)[1]

    def pairs_in(self, artifact: Artifact) -> AnchoredPairs | None:
        """The pairs as of the sums that an artifact holds; None where none were kept."""
        if "pair_items" not in artifact.dense:
            return None
        stored, _ = self._anchor_of(artifact)
        base, change = map(PairCounts.from_arrays, (stored.dense, artifact.dense))
        return AnchoredPairs(base, change)

    def latest(self, until: date) -> date:
        """The newest computed day up to a day; that day itself where there is none.

        Days without log files may be left out, so the day before is not always yesterday.
        """
        if self.artifacts.version("interaction_matrix", until) is not None:
            return until
        days = self.artifacts.days("interaction_matrix")
        return max((day for day in days if day <= until), default=until)

    def day_before(self, day: date) -> date:
        """The newest computed day before a day."""
        return self.latest(day - timedelta(days=1))

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

    def anchor_components(self, day: date, anchor_version: str) -> Any:
        """Where a day's decomposition starts from: the components of its anchor's own day.

        None when yesterday was seen through another anchor: then the day finds its own.
        """
        try:
            before = self.fitting("decomposition", self.day_before(day))
        except StaleArtifact:
            return None
        same = before.parents["anchor"] == anchor_version
        return before.dense["anchor_components"] if same else None

    def write_components(
        self,
        day: date,
        components: Components,
        anchor: Anchor,
        parents: Mapping[str, str],
        metadata: Mapping[str, Any],
        *,
        sound: bool,
    ) -> Artifact:
        """Store O, pi and where the next day starts from.

        O in single precision: rounding is far below the statistical error.
        """
        start = components.in_span if anchor.components is None else anchor.components
        arrays = {
            "item_probs": components.item_probs.astype(np.float32, copy=False),
            "weights": components.weights,
            "lambdas": components.decomposition.lambdas,
            "vectors": components.decomposition.vectors,
            "in_span": components.in_span,
            "anchor_components": start,
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

    def model(self, day: date, *, with_pairs: bool = True) -> tuple[FittedModel, Artifact]:
        """The model of a day, ready to personalize and to recommend.

        with_pairs: False for the components alone, whatever the ranking is.
        """
        artifact, settings = self.fitting("decomposition", day), self.chosen(day).model
        with_pairs = with_pairs and settings.ranking == _THREE_MOMENT
        try:
            sums = self.built_on("m2_statistics", day, "interaction_matrix")
            item_users = sums.dense["item_users"]
            pairs = self._pair_ranking(day, sums) if with_pairs else None
        except Expired:
            rows = self.rows(day)
            item_users = np.bincount(rows.X.indices, minlength=rows.X.shape[1])
            pairs = self._ranking_of_rows(day, rows) if with_pairs else None
        model = FittedModel(
            item_probs=artifact.dense["item_probs"],
            weights=artifact.dense["weights"],
            popularity=item_users / item_users.sum(),
            personalization=Personalization.from_settings(settings),
            pair_ranking=pairs,
            rows=settings.rows,
        )
        return model, artifact

    def _ranking_of_rows(self, day: date, rows: DayRows) -> PairRanking:
        """The pairs as of a day whose moments have expired: counted again, in this process."""
        chosen, most = self.chosen(day), self.settings.rebuild.pair_bytes
        users = UsersInMemory(rows.X, rows.last_days)
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
        pairs, fixed = self.pairs_in(sums), self._anchor_of(sums)[0].dense
        lacking = (weights.ease and "ease_data" not in fixed) or (
            weights.low_pass and "low_pass_basis" not in fixed
        )
        if pairs is None or lacking:
            raise StaleArtifact(f"m2_statistics of {day} was made for another ranking")
        D = pairs.counts.n_items
        return PairRanking(
            pairs.counts,
            LowPass.from_arrays(fixed).with_items(D) if weights.low_pass else None,
            weights,
            Ease.from_arrays(fixed).with_items(D) if weights.ease else None,
            PairRanking.trend_of(self.last_days(day) if weights.trend else None, weights),
        )

    def _anchor_of(self, sums: Artifact) -> tuple[Artifact, Anchor]:
        """The anchor that the sums were made with, kept in memory from day to day."""
        wanted, day = sums.parents["anchor"], date.fromisoformat(sums.metadata["anchor_day"])
        if self._anchor is None or self._anchor[0].version != wanted:
            artifact = self.fitting("anchor", day)
            if artifact.version != wanted:
                raise StaleArtifact(f"the anchor of {day} was replaced since {sums.day}")
            # Of the sums' own day: sums are kept while the settings that they depend on are the
            # same, and the choice of an old day may be gone while its anchor is in use.
            arrays, estimator = artifact.dense, self.moment_settings(sums.day).estimator
            anchor = Anchor(
                arrays["basis"], arrays["item_scale"], estimator, arrays["frequent_items"]
            )
            self._anchor = artifact, anchor
        return self._anchor


def _low_pass(users: Users, chosen: ChosenSettings) -> LowPass:
    weights, rng = chosen.ranking, np.random.default_rng(chosen.model.seed)
    pairs = scaled_pairs(users, weights.user_exponent, weights.low_pass_scaling)
    return LowPass.from_pairs(pairs, rng)
