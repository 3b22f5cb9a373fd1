"""All sections together, with the paths of the data folder."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.settings.checking import require
from mom_pipeline.settings.log_sections import LogSettings
from mom_pipeline.settings.sections import (
    ArtifactSettings,
    ComparisonSettings,
    EngineSettings,
    EvaluationSettings,
    MatrixSettings,
    ModelSettings,
    PipelineSettings,
    PromotionSettings,
    RebuildSettings,
    ServingSettings,
    WarehouseSettings,
)


@dataclass(frozen=True)
class Settings:
    """All settings of one data folder."""

    data_dir: Path
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    matrix: MatrixSettings = field(default_factory=MatrixSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    ranking: RankingWeights = field(default_factory=RankingWeights)
    rebuild: RebuildSettings = field(default_factory=RebuildSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    promotion: PromotionSettings = field(default_factory=PromotionSettings)
    comparison: ComparisonSettings = field(default_factory=ComparisonSettings)
    warehouse: WarehouseSettings = field(default_factory=WarehouseSettings)
    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)

    def __post_init__(self) -> None:
        kept, horizon = self.artifacts.retention_days, self.evaluation.horizon_days
        require(
            kept == 0 or kept > horizon + 1,
            "artifacts.retention_days",
            f"0 (keep all) or above evaluation.horizon_days + 1 = {horizon + 1}: the model of "
            "that day is still to be evaluated",
            kept,
        )

    @property
    def logs_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def warehouse_path(self) -> Path:
        return self.data_dir / "warehouse.duckdb"

    @property
    def artifacts_dir(self) -> Path:
        return self.data_dir / "artifacts"

    @property
    def comparisons_dir(self) -> Path:
        return self.data_dir / "comparisons"

    @property
    def models_dir(self) -> Path:
        return self.data_dir / "models"

    @property
    def reports_dir(self) -> Path:
        return self.data_dir / "reports"

    @property
    def exports_dir(self) -> Path:
        return self.data_dir / "exports"

    @property
    def erasures_dir(self) -> Path:
        return self.data_dir / "erasures"

    @property
    def scratch_dir(self) -> Path:
        return self.data_dir / "tmp"


def fingerprint(*sections: Any) -> str:
    """sha256 over settings sections: equal settings, equal fingerprint."""
    text = json.dumps([asdict(section) for section in sections], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
