"""The state of the model by day, as typed values over the artifact store.

What a later day starts from must have been made by the same settings and the same code, be
whole on disk, and have passed its checks. Otherwise `Unfit` says why not, and the day is
computed in full.
"""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.artifacts.store import Artifact, ArtifactStore
from mom_pipeline.core.algorithm.daily_classes import DayClasses, SpanWhitening
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.moments.anchored import Anchor, AnchoredMoments
from mom_pipeline.core.moments.daily import DailySettings, DayMoments, extended
from mom_pipeline.core.moments.sums import Estimator, MomentSums
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.parts import LowPass
from mom_pipeline.errors import DamagedArtifact
from mom_pipeline.settings import Settings, fingerprint

# Raised by one whenever the same rows would come out as other arrays, or with other facts.
CODE_VERSION = "3"

# Each asset with the one that it is made from, in order.
_CHAIN = (
    ("m2_statistics", "interaction_matrix"),
    ("whitening_matrix", "m2_statistics"),
    ("whitened_tensor", "whitening_matrix"),
    ("decomposition", "whitened_tensor"),
    ("user_personalization", "interaction_matrix"),
)
_SUM_ARRAYS = ("item_events", "item_users", "pair_diagonal")


class Unfit(MomError):
    """A stored day cannot be built upon; the message is the reason."""


class DayState:
    """The artifacts of one data folder, read and written as what they mean."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.artifacts = ArtifactStore(settings.artifacts_dir)
        self.estimator = Estimator.of(settings.model.estimator)  # type: ignore[arg-type]
        self._anchor: tuple[str, Anchor, Any] | None = None

    @property
    def daily_settings(self) -> DailySettings:
        """What the sums of a day depend on."""
        model, rebuild = self.settings.model, self.settings.rebuild
        return DailySettings(
            self.estimator,
            model.n_components,
            rebuild.frequent_items,
            rebuild.capture_threshold,
            model.seed,
        )

    def settings_of(self, asset: str) -> str:
        """Fingerprint of the settings that decide what an asset holds."""
        matrix, model = self.settings.matrix, self.settings.model
        if asset == "interaction_matrix":
            return fingerprint(matrix)
        # The weights decide the lists, which are made from the posteriors, and no moment.
        if asset == "user_personalization" and model.ranking == "three-moment":
            return fingerprint(matrix, model, self.settings.ranking)
        return fingerprint(matrix, model)

    def write(
        self,
        asset: str,
        day: date,
        arrays: Mapping[str, Any],
        parents: Mapping[str, str],
        metadata: Mapping[str, Any],
        *,
        sound: bool = True,
    ) -> Artifact:
        """Store what an asset made of a day. sound: whether its blocking checks passed."""
        notes = {**metadata, "code_version": CODE_VERSION, "sound": sound}
        settings = self.settings_of(asset)
        return self.artifacts.write(asset, day, arrays, settings, parents, notes)

    def fitting(self, asset: str, day: date, *, with_arrays: bool = True) -> Artifact:
        """An artifact that can be built upon, or Unfit with the reason."""
        if self.artifacts.version(asset, day) is None:
            raise Unfit(f"there is no {asset} of {day}")
        read = self.artifacts.read if with_arrays else self.artifacts.describe
        try:
            found = read(asset, day)
        except DamagedArtifact as error:
            raise Unfit(f"{asset} of {day} is damaged: {error}") from error
        if found.settings_fingerprint != self.settings_of(asset):
            raise Unfit(f"{asset} of {day} was made with other settings")
        made_by = found.metadata["code_version"]
        if made_by != CODE_VERSION:
            raise Unfit(f"{asset} of {day} was made by code version {made_by}, not {CODE_VERSION}")
        if not found.metadata["sound"]:
            raise Unfit(f"{asset} of {day} did not pass its checks")
        return found

    def built_on(self, asset: str, day: date, parent: str, *, with_arrays: bool = True) -> Artifact:
        """A fitting artifact that was made from the parent as it is now."""
        found = self.fitting(asset, day, with_arrays=with_arrays)
        if found.parents[parent] != self.artifacts.version(parent, day):
            raise Unfit(f"{asset} of {day} was made from an earlier {parent} of that day")
        return found

    def require_chain(self, day: date) -> None:
        """Raise Unfit unless every artifact of a day is sound and made from the others as now."""
        self.fitting("interaction_matrix", day, with_arrays=False)
        for asset, parent in _CHAIN:
            self.built_on(asset, day, parent, with_arrays=False)

    def matrix(self, day: date) -> tuple[csr_array, str]:
        """The interaction matrix as of a day, and its version."""
        found = self.fitting("interaction_matrix", day)
        return csr_array(found.arrays["interactions"]), found.version

    def write_moments(
        self, day: date, state: DayMoments, parents: Mapping[str, str], metadata: Mapping[str, Any],
        *, anchor_day: date, sound: bool,
    ) -> Artifact:  # fmt: skip
        """Store the sums of a day; the anchor's own arrays are stored once, with its day."""
        moments = state.moments
        if anchor_day == day:
            anchor = self.write(
                "anchor", day,
                {"basis": moments.anchor.basis, "item_scale": moments.anchor.item_scale,
                 "frequent_items": state.frequent_items},
                parents, {},
            )  # fmt: skip
            anchor_version = anchor.version
        else:
            anchor_version = str(self.artifacts.version("anchor", anchor_day))
        notes = {**metadata, "anchor_day": anchor_day.isoformat()}
        return self.write_sums(
            day, state, {**parents, "anchor": anchor_version}, notes, sound=sound
        )

    def write_sums(
        self, day: date, state: DayMoments, parents: Mapping[str, str], metadata: Mapping[str, Any],
        *, sound: bool,
    ) -> Artifact:  # fmt: skip
        """Store the sums of a day alone, under an anchor that is stored already."""
        moments = state.moments
        sums = {k: v for k, v in asdict(moments.sums).items() if k not in _SUM_ARRAYS}
        return self.write(
            "m2_statistics",
            day,
            {
                "pairs": moments.pairs,
                "triples": moments.triples,
                "pair_counts": state.pair_counts,
                **{name: getattr(moments.sums, name) for name in _SUM_ARRAYS},
            },
            parents,
            {**metadata, "sums": sums},
            sound=sound,
        )

    def moments(self, day: date) -> tuple[DayMoments, Artifact]:
        """The sums of a day with their anchor, made from its present matrix."""
        found = self.built_on("m2_statistics", day, "interaction_matrix")
        return self.moments_of(found), found

    def moments_of(self, found: Artifact) -> DayMoments:
        """The sums that an artifact holds, with their anchor."""
        sums = found.metadata["sums"]
        arrays = {name: found.dense[name] for name in _SUM_ARRAYS}
        anchor, frequent = self._anchor_of(found)
        moments = AnchoredMoments(
            extended(anchor, len(arrays["item_events"])),
            MomentSums(**{**sums, "size_sums": tuple(sums["size_sums"]), **arrays}),
            found.dense["pairs"],
            found.dense["triples"],
        )
        return DayMoments(moments, frequent, found.dense["pair_counts"])

    def moments_before(self, day: date) -> tuple[csr_array, DayMoments, date]:
        """Rows, sums and the anchor's day of the day before; Unfit when they cannot be used."""
        before = day - timedelta(days=1)
        state, found = self.moments(before)
        return self.matrix(before)[0], state, date.fromisoformat(found.metadata["anchor_day"])

    def whitening(self, day: date) -> tuple[SpanWhitening, Artifact]:
        """The whitening of a day inside the span of its anchor."""
        found = self.built_on("whitening_matrix", day, "m2_statistics")
        arrays = found.dense
        K = self.settings.model.n_components
        return SpanWhitening(arrays["factors"], arrays["spectrum"], K), found

    def write_classes(
        self, day: date, classes: DayClasses, popularity: Any,
        parents: Mapping[str, str], metadata: Mapping[str, Any], *, sound: bool,
    ) -> Artifact:  # fmt: skip
        """Store O, pi and where the next day starts from."""
        arrays = {
            "item_probs": classes.recovery.item_probs,
            "weights": classes.recovery.weights,
            "lambdas": classes.decomposition.lambdas,
            "vectors": classes.decomposition.vectors,
            "span_components": classes.span_components,
            "anchor_components": classes.anchor_components,
            "popularity": popularity,
        }
        return self.write("decomposition", day, arrays, parents, metadata, sound=sound)

    def model(self, day: date) -> tuple[FittedModel, Artifact]:
        """The model of a day, ready to personalize and to recommend."""
        found = self.fitting("decomposition", day)
        settings, arrays = self.settings.model, found.dense
        model = FittedModel(
            item_probs=arrays["item_probs"],
            weights=arrays["weights"],
            popularity=arrays["popularity"],
            basis=np.empty((len(arrays["item_probs"]), 0)),
            personalization=Personalization(
                settings.personalization,  # type: ignore[arg-type]
                settings.temperature,
                settings.em_steps,
                settings.smoothing,
            ),
            pair_ranking=self._pair_ranking(day) if settings.ranking == "three-moment" else None,
            diagnostics={},
        )
        return model, found

    def _pair_ranking(self, day: date) -> PairRanking:
        """Pairs from the rows of the day, the low-pass part from the span of its anchor."""
        anchor = self.moments(day)[0].moments.anchor
        only_span = np.full(anchor.basis.shape[1], np.inf)
        low_pass = LowPass(anchor.basis, anchor.item_scale, only_span)
        return PairRanking(self.matrix(day)[0], low_pass, self.settings.ranking)

    def _anchor_of(self, moments: Artifact) -> tuple[Anchor, Any]:
        """The anchor that the sums were made with, kept in memory from day to day."""
        wanted, day = moments.parents["anchor"], date.fromisoformat(moments.metadata["anchor_day"])
        if self._anchor is None or self._anchor[0] != wanted:
            found = self.fitting("anchor", day)
            if found.version != wanted:
                raise Unfit(f"the anchor of {day} was replaced since {moments.day}")
            arrays = found.dense
            anchor = Anchor(arrays["basis"], arrays["item_scale"], self.estimator)
            self._anchor = found.version, anchor, arrays["frequent_items"]
        return self._anchor[1], self._anchor[2]
