"""The settings that the model of a day is made with: as they stand, or chosen on the logs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from mom_pipeline.core.model import MethodOfMoments
from mom_pipeline.core.moments.cooccurrences import MAX_PAIR_BYTES
from mom_pipeline.core.moments.users import Users
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.low_pass import LowPass, scaled_pairs
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.settings import ModelSettings, Settings


def weights_of(settings: Settings) -> RankingWeights:
    """Return the weights of `[ranking]`; the exponents are those of the library."""
    return RankingWeights(**asdict(settings.ranking))


def method_of(model: ModelSettings) -> MethodOfMoments:
    """Return the method of `[model]`; what has no key there is as in the library."""
    return MethodOfMoments(**asdict(model))


@dataclass(frozen=True)
class ChosenSettings:
    """The method of a day.

    chosen_on: the day (ISO) whose logs they were chosen on; "" when they were not.
    evidence: what the choice rests on, plain values.
    """

    model: ModelSettings
    ranking: RankingWeights
    chosen_on: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def as_they_stand(cls, settings: Settings) -> Self:
        return cls(settings.model, weights_of(settings))

    @property
    def method(self) -> tuple[ModelSettings, RankingWeights]:
        """What decides the model, without when and why it was chosen."""
        return self.model, self.ranking

    def same_moments(self, other: Self) -> bool:
        """Tell whether both see the rows through the same moments, low-pass and EASE parts."""
        return (
            self.model.estimator == other.model.estimator
            and self.model.rows == other.model.rows
            and self.model.n_components == other.model.n_components
            and self.model.ranking == other.model.ranking
            and self.ranking.anchored == other.ranking.anchored
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` reads them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        model = ModelSettings(**values["model"])
        ranking = RankingWeights(**values["ranking"])
        return cls(model, ranking, values["chosen_on"], values["evidence"])


def ranking_parts(users: Users, chosen: ChosenSettings) -> dict[str, Any]:
    """Fit the low-pass and EASE parts on all rows, where they have a weight; their arrays."""
    arrays: dict[str, Any] = {}
    weights = chosen.ranking
    if weights.low_pass:
        pairs = scaled_pairs(users, weights.user_exponent, weights.low_pass_scaling)
        rng = np.random.default_rng(chosen.model.seed)
        arrays |= LowPass.from_pairs(pairs, rng).as_arrays()
    if weights.ease:
        arrays |= Ease.from_users(users, weights.ease_ridge, MAX_PAIR_BYTES).as_arrays()
    return arrays
