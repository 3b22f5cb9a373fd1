"""`DayArtifacts`: which stored artifacts of a day can be built upon.

What a later day starts from must have been made by the same settings and the same code, be
whole on disk, and have passed its checks. Otherwise `StaleArtifact` says why not, and the day is
computed in full.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from mom_pipeline.artifacts.store import Artifact, ArtifactStore
from mom_pipeline.core.algorithm.decompose import DecomposeSettings
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.moments.days import (
    MomentSettings,
    width_for_days,
)
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.ranking.score import NO_AGEING, RankingWeights
from mom_pipeline.errors import DamagedArtifact, ExpiredArrays
from mom_pipeline.settings import ModelSettings, Settings, fingerprint
from mom_pipeline.settings.chosen import ChosenSettings
from mom_pipeline.settings.sections import RebuildSettings

# Raised by one whenever the same rows would come out as other arrays, or with other facts.
CODE_VERSION = "11"

# Each asset with the one that it is made from, in order.
_CHAIN = (
    ("m2_statistics", "interaction_matrix"),
    ("whitening_matrix", "m2_statistics"),
    ("whitened_tensor", "whitening_matrix"),
    ("decomposition", "whitened_tensor"),
    ("user_personalization", "interaction_matrix"),
)
THREE_MOMENT = "three-moment"
_TOO_LITTLE = "too_little"
_LISTED = "user_personalization"
# Digits that hardly deflate, of which the last days alone are kept; see `retention`.
_PLAIN = ("triples", "half_triples", "item_pairs", "item_probs", "memberships", "tensor")


class StaleArtifact(MomError):
    """A stored day cannot be built upon; the message is the reason."""


class Expired(StaleArtifact):
    """The arrays of a stored day were removed, since it is old."""


class Damaged(StaleArtifact):
    """The arrays of a stored day are not what was written."""

    def __init__(self, asset: str, day: date, reason: str) -> None:
        super().__init__(f"{asset} of {day} is damaged: {reason}")
        self.asset, self.day = asset, day


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
        pair_exponent=ranking.user_exponent if model.ranking == THREE_MOMENT else None,
        pair_bytes=rebuild.pair_bytes,
        pair_drift=rebuild.pair_drift,
    )


class DayArtifacts:
    """The artifacts of one data folder, with the settings and the code that made them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.artifacts = ArtifactStore(settings.artifacts_dir, mapped=settings.engine.mapped)

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
        if model.ranking != THREE_MOMENT:
            return fingerprint(*moments)
        # The other weights decide the lists, which are made from the memberships, and no moment.
        everything = asset == _LISTED
        decisive = ranking if everything else ranking.anchored
        return fingerprint(*moments, rebuild.pair_megabytes, decisive)

    def half_life(self, day: date) -> float:
        """How fast histories age, as the ranking of a day reads them; NO_AGEING for never."""
        chosen = self.chosen(day)
        three_moment = chosen.model.ranking == THREE_MOMENT
        return chosen.ranking.history_half_life if three_moment else NO_AGEING

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
        return self.artifacts.write(asset, day, arrays, settings, parents, notes, plain=_PLAIN)

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
            raise Damaged(asset, day, str(error)) from error
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
        return artifact

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
