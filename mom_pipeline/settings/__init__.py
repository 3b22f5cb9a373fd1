"""Typed settings: the defaults, then `data/pipeline.toml`, then the environment.

`MOM_DATA_DIR` chooses the data folder; `MOM_<SECTION>__<KEY>` overrides one key, for example
`MOM_LOGS__TIMEZONE=Asia/Taipei` or `MOM_LOGS__COLUMNS__USER=customer`. A new section is a class
in `sections.py` and one field of `Settings`. The environment has a source of its own because
that of pydantic-settings skips unknown sections silently and takes lists as JSON only.
"""

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Self, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.settings.checking import (
    NOT_KEYS,
    FromKeys,
    invalid,
    require,
    section,
    type_of,
    unknown,
)
from mom_pipeline.settings.sections import (
    DELIMITERS,
    ESTIMATORS,
    PERSONALIZATIONS,
    AlertSettings,
    ArtifactSettings,
    ColumnSettings,
    ComparisonSettings,
    EngineSettings,
    EvaluationSettings,
    LogSettings,
    MatrixSettings,
    ModelSettings,
    PipelineSettings,
    PromotionSettings,
    RebuildSettings,
    ServingSettings,
    TuningSettings,
    WarehouseSettings,
)

__all__ = [
    "DATA_DIR_VARIABLE",
    "DELIMITERS",
    "ESTIMATORS",
    "PERSONALIZATIONS",
    "SETTINGS_FILE",
    "ColumnSettings",
    "LogSettings",
    "MatrixSettings",
    "ModelSettings",
    "Settings",
    "fingerprint",
    "load_settings",
]

DATA_DIR_VARIABLE = "MOM_DATA_DIR"
SETTINGS_FILE = "pipeline.toml"
# The first day while no setting names one: early, so that no log has to wait for it.
EARLIEST_DAY = "2000-01-01"


@section("")
class Settings:
    """All settings of one data folder.

    fixed: the keys of `[model]` and `[ranking]` that a source names, such as "model.estimator";
    the others may be chosen on the logs.
    """

    data_dir: Path
    fixed: tuple[str, ...] = ()
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    matrix: MatrixSettings = field(default_factory=MatrixSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    ranking: Annotated[RankingWeights, FromKeys()] = field(default_factory=RankingWeights)
    rebuild: RebuildSettings = field(default_factory=RebuildSettings)
    tuning: TuningSettings = field(default_factory=TuningSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    promotion: PromotionSettings = field(default_factory=PromotionSettings)
    comparison: ComparisonSettings = field(default_factory=ComparisonSettings)
    warehouse: WarehouseSettings = field(default_factory=WarehouseSettings)
    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)

    @model_validator(mode="after")
    def _evaluated_before_removed(self) -> Self:
        kept, horizon = self.artifacts.retention_days, self.evaluation.horizon_days
        require(
            kept == 0 or kept > horizon + 1,
            "artifacts.retention_days",
            f"0 (keep all) or above evaluation.horizon_days + 1 = {horizon + 1}: the model of "
            "that day is still to be evaluated",
            kept,
        )
        return self

    def first_and_last_day(self) -> tuple[date, date]:
        """Return the delivery days between which a day can be computed now."""
        today = datetime.now(tz=self.logs.zone).date()
        first, last = self.pipeline.start_date or EARLIEST_DAY, self.pipeline.end_date
        return date.fromisoformat(first), min(today, date.fromisoformat(last)) if last else today

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


@lru_cache(maxsize=256, typed=True)
def fingerprint(*sections: Any) -> str:
    """sha256 over sections or single values: equal settings, equal fingerprint."""
    text = json.dumps(sections, sort_keys=True, default=asdict)
    return hashlib.sha256(text.encode()).hexdigest()


_SETTINGS = TypeAdapter(Settings)


def load_settings(
    data_dir: Path | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Settings of a data folder: the defaults, then its `pipeline.toml`, then the environment.

    Raises InvalidSetting for a key that does not exist or was renamed, a value of another type,
    or a value outside of its range.
    """
    environment = os.environ if environment is None else environment
    folder = data_dir or Path(environment.get(DATA_DIR_VARIABLE) or "data")
    sources: dict[str, Any] = {"folder": folder, "environment": environment}
    try:
        values = _Sources(**sources).model_extra or {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"{folder / SETTINGS_FILE} is not valid TOML ({error}); correct it"
        ) from error
    for name in NOT_KEYS & set(values):
        raise InvalidSetting(unknown(name, Settings))
    try:
        return _SETTINGS.validate_python({"data_dir": folder, "fixed": _fixed(values), **values})
    except ValidationError as error:
        raise invalid(error, Settings, environment=environment) from None


def _fixed(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of the model and its ranking that are named."""
    sections = {name: values.get(name, {}) for name in ("model", "ranking")}
    return tuple(
        f"{name}.{key}" for name, keys in sections.items() if isinstance(keys, dict) for key in keys
    )


class _Sources(BaseSettings):
    """The values of all sources, merged by pydantic-settings; `Settings` checks them."""

    model_config = SettingsConfigDict(extra="allow")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment before file; the arguments only say where both are."""
        given = cast("InitSettingsSource", init_settings).init_kwargs
        file = TomlConfigSettingsSource(settings_cls, given["folder"] / SETTINGS_FILE)
        return _EnvironmentSource(settings_cls, given["environment"]), file


class _EnvironmentSource(InitSettingsSource):
    """`MOM_A__B=text` as {"a": {"b": value}}, the value as the file would hold it.

    Text that is not of the key's type stays text, for `Settings` to refuse.
    """

    def __init__(self, settings_cls: type[BaseSettings], environment: Mapping[str, str]) -> None:
        values: dict[str, Any] = {}
        for name in sorted(environment):
            if not name.startswith("MOM_") or "__" not in name:
                continue
            *parents, key = name.removeprefix("MOM_").lower().split("__")
            here = values
            for parent in parents:
                here = here.setdefault(parent, {})
                if not isinstance(here, dict):
                    raise InvalidSetting(f"{name} is below {parent!r}, which is not a section")
            here[key] = _from_text(environment[name], type_of(Settings, [*parents, key]))
        super().__init__(settings_cls, values)


def _from_text(text: str, wanted: Any) -> Any:
    if get_origin(wanted) is tuple:
        return [_from_text(entry, get_args(wanted)[0]) for entry in text.split(",")]
    if wanted is bool:
        return {"true": True, "false": False}.get(text, text)
    try:
        return wanted(text) if wanted in (int, float) else text
    except ValueError:
        return text
