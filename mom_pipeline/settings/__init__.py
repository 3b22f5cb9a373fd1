"""Typed settings: `data/pipeline.toml`, overridden by the environment.

`MOM_DATA_DIR` chooses the data folder; `MOM_<SECTION>__<KEY>` overrides one key, for example
`MOM_LOGS__TIMEZONE=Asia/Taipei` or `MOM_LOGS__COLUMNS__USER=customer`. A new section is a
frozen dataclass in `sections.py` and one field of `Settings`; loading and checking come with it.
"""

from mom_pipeline.settings.loading import (
    DATA_DIR_VARIABLE,
    SETTINGS_FILE,
    load_settings,
)
from mom_pipeline.settings.log_sections import (
    DELIMITERS,
    TIMESTAMP_FORMATS,
    ColumnSettings,
    LogSettings,
)
from mom_pipeline.settings.sections import (
    ENGINES,
    ESTIMATORS,
    PERSONALIZATIONS,
    PROJECTIONS,
    RANKINGS,
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
from mom_pipeline.settings.settings import (
    Settings,
    fingerprint,
)

__all__ = [
    "DATA_DIR_VARIABLE",
    "DELIMITERS",
    "ENGINES",
    "ESTIMATORS",
    "PERSONALIZATIONS",
    "PROJECTIONS",
    "RANKINGS",
    "SETTINGS_FILE",
    "TIMESTAMP_FORMATS",
    "ArtifactSettings",
    "ColumnSettings",
    "ComparisonSettings",
    "EngineSettings",
    "EvaluationSettings",
    "LogSettings",
    "MatrixSettings",
    "ModelSettings",
    "PipelineSettings",
    "PromotionSettings",
    "RebuildSettings",
    "ServingSettings",
    "Settings",
    "WarehouseSettings",
    "fingerprint",
    "load_settings",
]
