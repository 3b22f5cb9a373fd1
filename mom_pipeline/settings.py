"""Typed settings: `data/pipeline.toml`, overridden by the environment.

`MOM_DATA_DIR` chooses the data folder; `MOM_<SECTION>__<KEY>` overrides one key, for example
`MOM_LOGS__TIMEZONE=Asia/Taipei` or `MOM_LOGS__COLUMNS__USER=customer`. A new section is a
frozen dataclass and one field of `Settings`; loading and checking come with it.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import date
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mom_pipeline.core.errors import InvalidSetting

DATA_DIR_VARIABLE = "MOM_DATA_DIR"
SETTINGS_FILE = "pipeline.toml"
DELIMITERS = (",", ";", "|")
TIMESTAMP_FORMATS = ("iso", "epoch_s", "epoch_ms")
ESTIMATORS = ("balanced", "unbiased", "paper")
PERSONALIZATIONS = ("product", "tempered", "em")
RANKINGS = ("classes", "three-moment")
PROJECTIONS = ("clip", "simplex")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _require(condition: bool, key: str, expected: str, found: object) -> None:
    if not condition:
        raise InvalidSetting(f"{key} must be {expected}, found {found!r}; correct it there")


@dataclass(frozen=True)
class ColumnSettings:
    """Names of the columns in the log files; an empty optional name means "not there"."""

    user: str = "user"
    item: str = "item"
    timestamp: str = "timestamp"
    weight: str = ""
    exclude: str = ""

    def __post_init__(self) -> None:
        for key in ("user", "item", "timestamp"):
            _require(bool(getattr(self, key)), f"logs.columns.{key}", "a column name", "")
        names = [name for name in asdict(self).values() if name]
        _require(len(set(names)) == len(names), "logs.columns", "different names", names)
        for name in names:
            plain = '"' not in name and name.isprintable()
            _require(plain, "logs.columns", "printable names without quotes", name)


@dataclass(frozen=True)
class LogSettings:
    """How log files are read. Everything but `max_reject_share` decides what a line means."""

    timezone: str = "UTC"
    delimiter: str = ","
    timestamp_format: str = "iso"
    max_reject_share: float = 0.01
    columns: ColumnSettings = field(default_factory=ColumnSettings)

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidSetting(
                "logs.timezone must be an IANA zone such as 'UTC' or 'Asia/Taipei', "
                f"found {self.timezone!r}; correct it there"
            ) from error
        _require(
            self.delimiter in DELIMITERS, "logs.delimiter", f"one of {DELIMITERS}", self.delimiter
        )
        known = self.timestamp_format in TIMESTAMP_FORMATS or "%" in self.timestamp_format
        expected = f"one of {TIMESTAMP_FORMATS} or a pattern such as '%d/%m/%Y %H:%M'"
        _require(known, "logs.timestamp_format", expected, self.timestamp_format)
        share_is_valid = 0 <= self.max_reject_share <= 1
        _require(share_is_valid, "logs.max_reject_share", "in [0, 1]", self.max_reject_share)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def reading_rules(self) -> str:
        """The settings that decide what a line means, as canonical JSON for the ledger."""
        rules = asdict(self)
        del rules["max_reject_share"]
        return json.dumps(rules, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class MatrixSettings:
    """Which events make the interaction matrix as of a day."""

    window_days: int = 0
    min_item_users: int = 5
    min_user_items: int = 1

    def __post_init__(self) -> None:
        _require(
            self.window_days >= 0, "matrix.window_days", "0 (all days) or more", self.window_days
        )
        for key in ("min_item_users", "min_user_items"):
            _require(getattr(self, key) >= 1, f"matrix.{key}", "at least 1", getattr(self, key))


@dataclass(frozen=True)
class WarehouseSettings:
    """How the DuckDB file is opened."""

    lock_wait_seconds: float = 30.0
    threads: int = 0
    memory_limit: str = ""

    def __post_init__(self) -> None:
        wait = self.lock_wait_seconds
        _require(0 <= wait < float("inf"), "warehouse.lock_wait_seconds", "0 or more", wait)
        _require(self.threads >= 0, "warehouse.threads", "0 (all cores) or more", self.threads)
        limit = self.memory_limit
        known = not limit or re.fullmatch(r"\d+(\.\d+)? ?[KMGT]i?B", limit) is not None
        _require(known, "warehouse.memory_limit", "empty or like '4GB'", limit)


@dataclass(frozen=True)
class ArtifactSettings:
    """How long the arrays of past days are kept."""

    retention_days: int = 0

    def __post_init__(self) -> None:
        days = self.retention_days
        _require(days >= 0, "artifacts.retention_days", "0 (keep all) or more", days)


@dataclass(frozen=True)
class PipelineSettings:
    """The days of the pipeline; an empty day is decided by the log files."""

    start_date: str = ""
    end_date: str = ""

    def __post_init__(self) -> None:
        for key in ("start_date", "end_date"):
            text = getattr(self, key)
            _require(not text or _is_day(text), f"pipeline.{key}", "empty or a YYYY-MM-DD", text)
        in_order = not (self.start_date and self.end_date) or self.start_date <= self.end_date
        _require(in_order, "pipeline.end_date", "on or after start_date", self.end_date)


@dataclass(frozen=True)
class ModelSettings:
    """The method: which moments, how many classes, and how a history becomes a list."""

    n_components: int = 8
    estimator: str = "balanced"
    projection: str = "clip"
    personalization: str = "em"
    temperature: float = 0.5
    em_steps: int = 5
    smoothing: float = 0.05
    ranking: str = "classes"
    delta: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        choices = {
            "estimator": ESTIMATORS,
            "projection": PROJECTIONS,
            "personalization": PERSONALIZATIONS,
            "ranking": RANKINGS,
        }
        for key, allowed in choices.items():
            value = getattr(self, key)
            _require(value in allowed, f"model.{key}", f"one of {allowed}", value)
        for key in ("n_components", "em_steps"):
            _require(getattr(self, key) >= 1, f"model.{key}", "at least 1", getattr(self, key))
        for key in ("smoothing", "delta"):
            inside = 0 < getattr(self, key) < 1
            _require(inside, f"model.{key}", "between 0 and 1", getattr(self, key))
        positive = 0 < self.temperature < float("inf")
        _require(positive, "model.temperature", "above 0", self.temperature)
        _require(self.seed >= 0, "model.seed", "0 or more", self.seed)


@dataclass(frozen=True)
class RebuildSettings:
    """When a day is computed from all users instead of from its changed users."""

    capture_threshold: float = 0.97
    frequent_items: int = 200

    def __post_init__(self) -> None:
        threshold = self.capture_threshold
        _require(0 <= threshold <= 1, "rebuild.capture_threshold", "in [0, 1]", threshold)
        _require(
            self.frequent_items >= 2, "rebuild.frequent_items", "at least 2", self.frequent_items
        )


@dataclass(frozen=True)
class ServingSettings:
    """The lists that are kept for every user."""

    list_length: int = 20
    refresh_drift: float = 0.0

    def __post_init__(self) -> None:
        _require(self.list_length >= 1, "serving.list_length", "at least 1", self.list_length)
        drift = self.refresh_drift
        _require(0 <= drift <= 1, "serving.refresh_drift", "in [0, 1]", drift)


@dataclass(frozen=True)
class EvaluationSettings:
    """How a model is compared with what users took afterwards."""

    horizon_days: int = 7
    cutoffs: tuple[int, ...] = (5, 10, 20, 40, 60, 80, 100, 200, 300, 400, 500)

    def __post_init__(self) -> None:
        horizon = self.horizon_days
        _require(horizon >= 1, "evaluation.horizon_days", "at least 1", horizon)
        cutoffs = self.cutoffs
        ascending = bool(cutoffs) and cutoffs[0] >= 1 and list(cutoffs) == sorted(set(cutoffs))
        _require(ascending, "evaluation.cutoffs", "ascending numbers from 1 on", cutoffs)


@dataclass(frozen=True)
class Settings:
    """All settings of one data folder."""

    data_dir: Path
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    matrix: MatrixSettings = field(default_factory=MatrixSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    rebuild: RebuildSettings = field(default_factory=RebuildSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    warehouse: WarehouseSettings = field(default_factory=WarehouseSettings)
    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)

    def __post_init__(self) -> None:
        kept, horizon = self.artifacts.retention_days, self.evaluation.horizon_days
        _require(
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
    def scratch_dir(self) -> Path:
        return self.data_dir / "tmp"


def fingerprint(*sections: Any) -> str:
    """sha256 over settings sections: equal settings, equal fingerprint."""
    text = json.dumps([asdict(section) for section in sections], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load_settings(
    data_dir: Path | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Settings of a data folder: the defaults, then its `pipeline.toml`, then the environment.

    Raises InvalidSetting for a key that does not exist, a value of another type, or a value
    outside of its range.
    """
    environment = os.environ if environment is None else environment
    folder = data_dir or Path(environment.get(DATA_DIR_VARIABLE) or "data")
    values = _read_toml(folder / SETTINGS_FILE)
    _apply_environment(values, environment)
    return Settings(data_dir=folder, **_section_values(Settings, values, ""))


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path} is not valid TOML ({error}); correct it") from error


def _apply_environment(values: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Put `MOM_A__B=text` at values["a"]["b"]; the text is converted to the key's type later."""
    for name in sorted(environment):
        if not name.startswith("MOM_") or "__" not in name:
            continue
        *parents, key = name.removeprefix("MOM_").lower().split("__")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise InvalidSetting(f"{name} names a key below {parent!r}, which is not a section")
        place[key] = _FromEnvironment(name, environment[name])


@dataclass(frozen=True)
class _FromEnvironment:
    name: str
    text: str


def _section_values(section: type, values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Constructor arguments of a section, checked against its fields."""
    types = get_type_hints(section)
    names = [f.name for f in fields(section) if f.name != "data_dir"]
    arguments: dict[str, Any] = {}
    for key, value in values.items():
        dotted = f"{prefix}{key}"
        if key not in names:
            raise InvalidSetting(f"unknown setting {dotted!r}; known here: {', '.join(names)}")
        if is_dataclass(types[key]):
            if not isinstance(value, Mapping):
                raise InvalidSetting(f"{dotted} must be a section [{dotted}], found {value!r}")
            arguments[key] = types[key](**_section_values(types[key], value, f"{dotted}."))
        else:
            arguments[key] = _typed(dotted, types[key], value)
    return arguments


def _typed(dotted: str, wanted: Any, value: Any) -> Any:
    """The value as the wanted type; text from the environment is converted.

    A tuple is a list in the file, and comma-separated in the environment.
    """
    if get_origin(wanted) is tuple:
        return _typed_entries(dotted, get_args(wanted)[0], value)
    if isinstance(value, _FromEnvironment):
        try:
            return wanted(value.text)
        except ValueError as error:
            raise InvalidSetting(
                f"{value.name} must be of type {wanted.__name__}, found {value.text!r}"
            ) from error
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        raise InvalidSetting(
            f"{dotted} must be of type {wanted.__name__}, "
            f"found {value!r} of type {type(value).__name__}"
        )
    return value


def _typed_entries(dotted: str, wanted: type, value: Any) -> tuple[Any, ...]:
    if isinstance(value, _FromEnvironment):
        value = [_FromEnvironment(value.name, text) for text in value.text.split(",")]
    if not isinstance(value, list):
        raise InvalidSetting(f"{dotted} must be a list of {wanted.__name__}, found {value!r}")
    return tuple(_typed(dotted, wanted, entry) for entry in value)
