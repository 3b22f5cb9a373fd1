"""The settings that the model of a day is made with: as they stand, or chosen on the logs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.settings import Settings
from mom_pipeline.settings.sections import ModelSettings


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
        return cls(settings.model, settings.ranking)

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
        ranking = RankingWeights.from_saved(values["ranking"])
        return cls(model, ranking, values["chosen_on"], values["evidence"])
