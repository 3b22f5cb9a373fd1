"""`Days`: what was made of each day, read and written as what it means; nothing is fitted here.

A run holds the lock of the folder, so the copy of the ledger in memory is the ledger.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from mom_pipeline.artifacts.store import Arrays, ArrayStore
from mom_pipeline.core.algorithm.decompose import Components, DecomposeSettings
from mom_pipeline.core.algorithm.whitening import Whitening
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.evaluation.backtest import Backtest
from mom_pipeline.core.evaluation.stability import SplitHalf
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.cooccurrences import Cooccurrences
from mom_pipeline.core.moments.days import (
    AnchoredCooccurrences,
    DayStep,
    MomentSettings,
    Yesterday,
    width_for_days,
)
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import DayRows
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.item_days import ItemDays
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.parts import USER_EXPONENT
from mom_pipeline.errors import DamagedArtifact
from mom_pipeline.pipeline.choice import ChosenSettings, method_of
from mom_pipeline.settings import Settings, fingerprint
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.materializations import Materialization, materializations, record
from mom_pipeline.warehouse.matrix import DayMatrix

# Raised by one whenever the same rows would come out as other arrays, or with other facts.
CODE_VERSION = "15"
# The assets of every day in their order, each with those of the same day that it is made from.
INPUTS: Mapping[str, tuple[str, ...]] = {
    "raw_logs": (),
    "interaction_matrix": ("raw_logs",),
    "chosen_settings": ("interaction_matrix",),
    "m2_statistics": ("interaction_matrix", "chosen_settings"),
    "whitening_matrix": ("m2_statistics",),
    "whitened_tensor": ("whitening_matrix",),
    "decomposition": ("whitened_tensor",),
    "user_personalization": ("decomposition", "interaction_matrix"),
    "groups": ("user_personalization",),
    "evaluation_metrics": ("user_personalization",),
    "promotion": ("evaluation_metrics",),
    "recommendations": ("promotion",),
    "report": ("recommendations",),
}
THREE_MOMENT = "three-moment"
TOO_LITTLE = "too_little"
# The fingerprint of all admitted deliveries up to a day, among the inputs of its matrix.
LOGS = "logs"
# Files beside those of assets: what a rebuild fixed, and the sums that the next day starts from.
_ANCHOR, _SUMS = "anchor", "moment_sums"
# The facts that point to files: without them, figures are what is left of a day.
OF_FILES = ("bytes", _ANCHOR, _SUMS)
# The days whose sums stay: the newest, and the one that it started from.
_DAYS_OF_SUMS = 2
_PAIR_DRIFT = 0.5


def _files(made: Materialization) -> list[tuple[str, str]]:
    """Asset and version of the arrays that a row points to, but for the sums."""
    own = [(made.asset, made.version)] if "bytes" in made.facts else []
    return own + ([(_ANCHOR, made.facts[_ANCHOR])] if _ANCHOR in made.facts else [])


class NotUsable(MomError):
    """What was made of a day cannot be built upon; the message is the reason."""


class TooLittleYet(NotUsable):
    """The rows up to a day do not suffice for a model; the message is the reason."""


class Days:
    """What was made of the days of one data folder."""

    def __init__(self, settings: Settings, warehouse: Warehouse | None = None) -> None:
        self.settings = settings
        self.warehouse = warehouse or Warehouse(settings)
        self.store = ArrayStore(settings.artifacts_dir, mapped=settings.engine.mapped)
        self._anchor: _StoredAnchor | None = None

    @cached_property
    def made(self) -> dict[tuple[str, date], Materialization]:
        """The ledger, by asset and day."""
        if not self.warehouse.exists():
            return {}
        with self.warehouse.reading() as connection:
            return materializations(connection)

    def computed(self) -> list[date]:
        """The days that have a matrix, in order."""
        return sorted(day for asset, day in self.made if asset == "interaction_matrix")

    def latest(self, until: date) -> date:
        """The newest computed day up to a day, not always yesterday; itself where there is none."""
        if ("interaction_matrix", until) in self.made:
            return until
        return max((day for day in self.computed() if day <= until), default=until)

    def day_before(self, day: date) -> date:
        """The newest computed day before a day."""
        return self.latest(day - timedelta(days=1))

    def staleness(self, asset: str, day: date) -> str:
        """Why an asset of a day is not up to date with settings, code and its inputs; or ""."""
        made = self.made.get((asset, day))
        if made is None:
            return f"there is no {asset} of {day}"
        if made.code != CODE_VERSION:
            return f"{asset} of {day} was made by code version {made.code}, not {CODE_VERSION}"
        if made.settings != self.settings_of[asset]:
            return f"{asset} of {day} was made with other settings"
        for name in INPUTS[asset]:
            now = self.made.get((name, day))
            if now is None or made.inputs.get(name) != now.version:
                return f"{asset} of {day} was made from an earlier {name} of that day"
        return ""

    def usable(self, asset: str, day: date) -> Materialization:
        """The row of an asset that can be built upon, or NotUsable with the reason."""
        if reason := self.staleness(asset, day):
            raise NotUsable(reason)
        made = self.made[asset, day]
        if TOO_LITTLE in made.facts:
            raise TooLittleYet(made.facts[TOO_LITTLE])
        if not made.sound:
            raise NotUsable(f"{asset} of {day} did not pass its checks")
        return made

    def arrays(self, asset: str, day: date) -> Arrays:
        """The arrays of an asset that can be built upon."""
        return self._read(asset, self.usable(asset, day).version, day)

    def _read(self, asset: str, version: str, day: date) -> Arrays:
        try:
            return self.store.read(asset, version)
        except DamagedArtifact as error:
            raise NotUsable(f"the arrays of {asset} of {day} are gone or damaged") from error

    def lacks_arrays(self, asset: str, day: date) -> bool:
        """Whether a file of an asset is gone, of a day that should have it."""
        return not all(self.store.path(*file).is_file() for file in _files(self.made[asset, day]))

    @cached_property
    def settings_of(self) -> Mapping[str, str]:
        """Fingerprints of the settings that decide what each asset makes of its inputs."""
        s = self.settings
        decisive: dict[str, tuple[Any, ...]] = {
            "raw_logs": (s.logs.reading_rules(),),
            "interaction_matrix": (s.matrix, s.logs.timezone),
            "chosen_settings": (
                *(s.model, s.ranking, s.tuning.every_days, s.fixed),
                *(s.serving.exclude_seen, s.evaluation.horizon_days),
            ),
            "evaluation_metrics": (s.evaluation.horizon_days, s.evaluation.cutoffs),
            "recommendations": (s.serving,),
        }
        return {asset: fingerprint(*decisive.get(asset, ())) for asset in INPUTS}

    def publish(  # noqa: PLR0913 - the columns of the ledger
        self,
        asset: str,
        day: date,
        *,
        version: str = "",
        arrays: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
        inputs: Mapping[str, str] | None = None,
        sound: bool = True,
        also: Callable[[Connection], object] = lambda connection: None,
    ) -> Materialization:
        """Store what an asset made of a day, and point to it, in one transaction with `also`."""
        facts = dict(facts or {})
        if arrays is not None:
            version = self.store.write(asset, day, arrays)
            facts["bytes"] = self.store.path(asset, version).stat().st_size
        own = {
            name: self.made[name, day].version for name in INPUTS[asset] if (name, day) in self.made
        }
        made = Materialization(
            *(asset, day, version, {**own, **(inputs or {})}),
            *(self.settings_of[asset], CODE_VERSION, sound, facts),
        )
        with self.warehouse.connect() as connection:
            also(connection)
            record(connection, made)
        self.made[asset, day] = made
        return made

    def forget_from(self, first: date) -> None:
        """Drop a day and all later ones from the copy in memory, as is done in the ledger."""
        for asset, day in list(self.made):
            if day >= first and asset != "raw_logs":
                del self.made[asset, day]

    def remove_damaged(self) -> int:
        """Remove the files that are not what was written: their days are computed again."""
        kept = self.kept_files()
        damaged = [file for file in kept if not self.store.is_whole(*file)]
        for asset, version in damaged:
            self.store.remove(asset, version)
            if asset == _SUMS:  # only the next day starts from them
                made = self.made["m2_statistics", kept[asset, version]]
                self.store.remove(made.asset, made.version)
        return len(damaged)

    def kept_files(self) -> dict[tuple[str, str], date]:
        """Day of each asset and version of the last `retention_days`; of sums, the newest two."""
        kept: dict[tuple[str, str], date] = {}
        days = [day for day in self.computed() if self.is_kept(day)]
        for (_, day), made in self.made.items():
            if day in days:
                kept |= dict.fromkeys(_files(made), day)
            if day in days[-_DAYS_OF_SUMS:] and _SUMS in made.facts:
                kept[_SUMS, made.facts[_SUMS]] = day
        return kept

    def is_kept(self, day: date) -> bool:
        """Whether a day keeps its arrays."""
        kept, days = self.settings.artifacts.retention_days, self.computed()
        return not kept or not days or day > days[-1] - timedelta(days=kept)

    @staticmethod
    def matrix_arrays(matrix: DayMatrix) -> Arrays:
        """What is stored of the matrix as of a day, with the days of its interactions."""
        return {
            "interactions": matrix.interactions,
            "last_days": matrix.last_days.data,
            # Equal rows of other ids are another matrix.
            LOGS: np.frombuffer(matrix.fingerprint.encode(), dtype=np.uint8),
        }

    def rows(self, day: date) -> DayRows:
        """The rows as of a day, with the days of their interactions."""
        arrays = self.arrays("interaction_matrix", day)
        X = arrays["interactions"]
        last_days = type(X)((arrays["last_days"], X.indices, X.indptr), shape=X.shape)
        return DayRows(X, last_days, self.made["interaction_matrix", day].version)

    def chosen(self, day: date) -> ChosenSettings:
        """The method of a day: as the settings stood, or as it was chosen on the logs."""
        return ChosenSettings.from_dict(self.usable("chosen_settings", day).facts["chosen"])

    def moment_settings(self, day: date) -> MomentSettings:
        """The settings that the sums of a day depend on."""
        chosen = self.chosen(day)
        model, pairs = chosen.model, chosen.model.ranking == THREE_MOMENT
        return MomentSettings(
            estimator=Estimator.from_name(model.estimator, rows=model.rows),
            n_components=model.n_components,
            anchor_width=width_for_days(model.n_components),
            seed=model.seed,
            halves=True,
            capture_threshold=self.settings.rebuild.capture_threshold,
            pair_exponent=USER_EXPONENT if pairs else None,
            pair_drift=_PAIR_DRIFT,
        )

    def decompose_settings(self, day: date) -> DecomposeSettings:
        """The settings of steps 2 to 8 of Algorithm 1 on a day."""
        return DecomposeSettings.from_settings(method_of(self.chosen(day).model))

    def write_moments(self, day: date, step: DayStep) -> tuple[Arrays, dict[str, str]]:
        """Write sums, and the anchor of a rebuild; return the other arrays, and where these lie."""
        if step.reason:
            fixed = {"basis": step.anchor.basis, "item_scale": step.anchor.item_scale}
            fixed |= step.pairs.base.as_arrays() if step.pairs else {}
            where = {_ANCHOR: self.store.write(_ANCHOR, day, fixed), "anchor_day": day.isoformat()}
        else:
            before = self.made["m2_statistics", self.day_before(day)].facts
            where = {name: before[name] for name in (_ANCHOR, "anchor_day")}
        where[_SUMS] = self.store.write(_SUMS, day, step.sums.as_arrays())
        arrays = {"item_users": step.sums.first.item_users}
        return arrays | (step.pairs.change.as_arrays() if step.pairs else {}), where

    def moments(self, day: date) -> tuple[Anchor, AnchoredSums]:
        """The sums of a day with their anchor."""
        made = self.usable("m2_statistics", day)
        sums = AnchoredSums.from_arrays(self._read(_SUMS, made.facts[_SUMS], day))
        anchor = self._anchor_of(made).anchor
        return anchor.with_items(len(sums.first.item_users)), sums

    def _pairs(self, made: Materialization, arrays: Arrays) -> AnchoredCooccurrences | None:
        if "pair_steps" not in arrays:
            return None
        return AnchoredCooccurrences(self._anchor_of(made).pairs, Cooccurrences.from_arrays(arrays))

    def yesterday(self, day: date) -> Yesterday:
        """Rows and sums of the day before; NotUsable when the day cannot start from them."""
        before = self.day_before(day)
        if not self.chosen(day).same_moments(self.chosen(before)):
            raise NotUsable(f"other settings were chosen than those of {before}")
        X, width = self.rows(before).X, self.rows(day).X.shape
        if X.shape[0] > width[0] or X.shape[1] > width[1]:
            raise NotUsable(f"interaction_matrix of {day} is older than that of {before}")
        anchor, sums = self.moments(before)
        made, arrays = self.made["m2_statistics", before], self.arrays("m2_statistics", before)
        return Yesterday(X, anchor, sums, self._pairs(made, arrays))

    def whitening(self, day: date) -> Whitening:
        """The whitening of a day inside the span of its anchor."""
        arrays = self.arrays("whitening_matrix", day)
        K = self.chosen(day).model.n_components
        return Whitening(arrays["factors"], arrays["spectrum"], K)

    def with_components(self, day: date, anchor: Anchor) -> tuple[Anchor, Any]:
        """The anchor with the components of its day, and O of the day before; None for none."""
        before = self.day_before(day)
        try:
            arrays = self.arrays("decomposition", before)
        except NotUsable:
            return anchor, None
        own, other = (self.made["m2_statistics", d].facts[_ANCHOR] for d in (day, before))
        if own == other:  # or else yesterday had other components
            starts = arrays["anchor_components"], arrays["half_components"]
            anchor = replace(anchor, components=starts[0], half_components=starts[1])
        return anchor, arrays["item_probs"]

    @staticmethod
    def component_arrays(components: Components, halves: SplitHalf, anchor: Anchor) -> Arrays:
        """What is stored: O in single precision, pi, and where the next day starts from."""
        start, half_starts = anchor.components, anchor.half_components
        if start is None:
            start, half_starts = components.in_span, halves.components.astype(np.float32)
        return {
            "item_probs": components.item_probs.astype(np.float32, copy=False),
            "weights": components.weights,
            "lambdas": components.decomposition.lambdas,
            "anchor_components": start,
            "half_components": half_starts,
        }

    def model(self, day: date, *, with_pairs: bool = True) -> FittedModel:
        """The model of a day, ready to answer. with_pairs: False for the components alone."""
        components, settings = self.arrays("decomposition", day), self.chosen(day).model
        statistics, ranking = self.arrays("m2_statistics", day), None
        item_users = statistics["item_users"]
        if with_pairs and settings.ranking == THREE_MOMENT:
            pairs = self._pairs(self.made["m2_statistics", day], statistics)
            if pairs is None:
                raise NotUsable(f"m2_statistics of {day} was made for another ranking")
            ease = Ease.from_arrays(statistics).with_items(pairs.counts.n_items)
            item_days = ItemDays.from_rows(self.rows(day).last_days)
            ranking = PairRanking(pairs.counts, ease, self.chosen(day).ranking, item_days)
        return FittedModel(
            item_probs=components["item_probs"],
            weights=components["weights"],
            popularity=item_users / item_users.sum(),
            personalization=Personalization.from_settings(method_of(settings)),
            pair_ranking=ranking,
            rows=settings.rows,
        )

    def backtest(self, day: date, model_day: date) -> Backtest | None:
        """How the present model of `model_day` did up to a day; None where that is not known."""
        try:
            made = self.usable("evaluation_metrics", day)
            if made.inputs["model"] != self.usable("decomposition", model_day).version:
                return None
            return Backtest.from_arrays(self.arrays("evaluation_metrics", day))
        except (NotUsable, KeyError):
            return None

    def _anchor_of(self, made: Materialization) -> "_StoredAnchor":
        """What the rebuild before a day fixed, kept in memory from day to day."""
        version = made.facts[_ANCHOR]
        if self._anchor is None or self._anchor.version != version:
            arrays = self._read(_ANCHOR, version, made.day)
            estimator = self.moment_settings(made.day).estimator
            anchor = Anchor(arrays["basis"], arrays["item_scale"], estimator)
            self._anchor = _StoredAnchor(version, arrays, anchor)
        return self._anchor


@dataclass(frozen=True)
class _StoredAnchor:
    """What a rebuild fixed, each part made ready when a day first needs it."""

    version: str
    arrays: Arrays
    anchor: Anchor

    @cached_property
    def pairs(self) -> Cooccurrences:
        """Those of the anchor's day."""
        return Cooccurrences.from_arrays(self.arrays)
