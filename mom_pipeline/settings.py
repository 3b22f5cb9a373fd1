"""Settings: the defaults, then `pipeline.toml` of the data folder, then the environment.

`MOM_DATA_DIR` chooses the data folder; `MOM_<SECTION>__<KEY>` overrides one key, for example
`MOM_LOGS__TIMEZONE=Asia/Taipei` or `MOM_LOGS__COLUMNS__USER=customer`.
"""

import difflib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, fields
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from mom_pipeline.errors import InvalidSetting

DATA_DIR_VARIABLE = "MOM_DATA_DIR"
SETTINGS_FILE = "pipeline.toml"
# The first day while no setting names one: early, so that no log has to wait for it.
EARLIEST_DAY = "2000-01-01"
# Of the code that judges a line: 3 since records go on over line ends and returns are taken.
RULES_VERSION = 3
# Settings of [logs] that refuse a whole file and say nothing about a line.
_OF_FILES = ("max_reject_share", "require_checksum")
# Fields of `Settings` that no source may name.
_NOT_KEYS = {"data_dir", "fixed"}
_SECTION = ConfigDict(extra="forbid")
T = TypeVar("T")

# The names of core, which this module does not import; a test compares them.
Delimiter = Literal[",", ";", "|"]
EstimatorName = Literal["paper", "unbiased", "balanced"]
RowsName = Literal["binary", "counts", "log"]
RuleName = Literal["product", "tempered", "em"]
RankingName = Literal["components", "three-moment"]
FeatureName = Literal[
    "pairs", "ease", "low_pass", "users", "trend_1", "trend_14", "quiet", "had", "times", "since"
]
DELIMITERS: tuple[Delimiter, ...] = get_args(Delimiter)


def _rule(expected: str, holds: Callable[[Any], object]) -> AfterValidator:
    """Return a check of one value. expected: completes "must be"."""

    def check(value: Any) -> Any:
        _require(bool(holds(value)), expected, value)
        return value

    return AfterValidator(check)


def _require(holds: bool, expected: str, value: object, *keys: str) -> None:
    """Check what no type can say. keys: below the section, of the value to be corrected."""
    if not holds:
        context = {"expected": expected, "value": value, "keys": keys}
        raise PydanticCustomError("setting", "Input should be {expected}", context)


def _text(expected: str, pattern: str) -> AfterValidator:
    return _rule(expected, re.compile(pattern).fullmatch)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_zone(text: str) -> bool:
    try:
        return bool(ZoneInfo(text))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


Count = Annotated[StrictInt, Field(ge=1)]
CountOrZero = Annotated[StrictInt, Field(ge=0)]
Share = Annotated[StrictFloat, Field(ge=0, le=1)]
NotNegative = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[StrictFloat, Field(allow_inf_nan=False)]
# A table of the file; pairs here, which can be hashed.
_pairs = BeforeValidator(lambda it: tuple(sorted(it.items())) if isinstance(it, dict) else it)
Weights = Annotated[tuple[tuple[FeatureName, Finite], ...], _pairs]
# Event type -> how much it counts: 0 leaves it out, below 0 takes an earlier interaction away.
EventWeight = Annotated[Finite, Field(ge=-1e6, le=1e6)]
EventWeights = Annotated[tuple[tuple[StrictStr, EventWeight], ...], _pairs]
Day = Annotated[StrictStr, _rule("empty or a YYYY-MM-DD", lambda day: not day or _is_day(day))]
Zone = Annotated[StrictStr, _rule("an IANA zone such as 'UTC' or 'Asia/Taipei'", _is_zone)]
ColumnName = Annotated[
    StrictStr, _rule("printable without quotes", lambda s: '"' not in s and s.isprintable())
]
RequiredColumn = Annotated[ColumnName, Field(min_length=1)]
TimestampFormat = Annotated[
    StrictStr,
    _rule(
        "'iso', 'epoch_s', 'epoch_ms', 'epoch_us', 'excel' or a pattern such as '%d/%m/%Y %H:%M'",
        lambda text: text in ("iso", "epoch_s", "epoch_ms", "epoch_us", "excel") or "%" in text,
    ),
]
MemoryLimit = Annotated[StrictStr, _text("empty or like '4GB'", r"(\d+(\.\d+)? ?[KMGT]i?B)?")]
Webhook = Annotated[
    StrictStr,
    _text("empty or an address that begins with http:// or https://", r"(https?://[^/\s].*)?"),
]
# Lists may be one text, as variables have them: comma-separated.
_split = BeforeValidator(lambda given: given.split(",") if isinstance(given, str) else given)
Texts = Annotated[tuple[StrictStr, ...], _split]
Names = Annotated[Texts, Field(min_length=1)]
Cutoffs = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...],
    _split,
    Field(min_length=1),
    _rule("ascending", lambda numbers: list(numbers) == sorted(set(numbers))),
]


class _Below:
    """A place of that name below the data folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, settings: "Settings", owner: object) -> Path:
        return settings.data_dir / self._name


@dataclass(frozen=True, config=_SECTION)
class PipelineSettings:
    """The days of the pipeline; an empty day is decided by the log files."""

    start_date: Day = ""
    end_date: Day = ""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        holds = not (self.start_date and self.end_date) or self.start_date <= self.end_date
        _require(holds, "on or after start_date", self.end_date, "end_date")
        return self


@dataclass(frozen=True, config=_SECTION)
class ColumnSettings:
    """Names of the columns in the log files; an empty optional name means "not there"."""

    user: RequiredColumn = "user"
    item: RequiredColumn = "item"
    timestamp: RequiredColumn = "timestamp"
    weight: ColumnName = ""
    exclude: ColumnName = ""
    event: ColumnName = ""

    @model_validator(mode="after")
    def _different(self) -> Self:
        names = [name for name in asdict(self).values() if name]
        _require(len(set(names)) == len(names), "different names", names)
        return self


@dataclass(frozen=True, config=_SECTION)
class LogSettings:
    """How log files are read, and which of them are refused (`_OF_FILES`)."""

    timezone: Zone = "UTC"
    delimiter: Delimiter = ","
    timestamp_format: TimestampFormat = "iso"
    max_reject_share: Share = 0.01
    require_checksum: StrictBool = False
    columns: ColumnSettings = ColumnSettings()
    event_weights: EventWeights = ()

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def reading_rules(self) -> str:
        """What decides what a line means, as JSON for the ledger: other rules, read again."""
        rules = {key: value for key, value in asdict(self).items() if key not in _OF_FILES}
        rules["version"] = RULES_VERSION
        return json.dumps(rules, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, config=_SECTION)
class MatrixSettings:
    """Which events make the interaction matrix as of a day."""

    window_days: CountOrZero = 0
    min_item_users: Count = 5
    min_user_items: Count = 1


@dataclass(frozen=True, config=_SECTION)
class ModelSettings:
    """The method: which moments, how many components, and how a history becomes a list."""

    n_components: Count = 100
    estimator: EstimatorName = "balanced"
    rows: RowsName = "binary"
    personalization: RuleName = "em"
    ranking: RankingName = "three-moment"
    seed: CountOrZero = 0


@dataclass(frozen=True, config=_SECTION)
class RankingSettings:
    """The three-moment ranking: whether its weights are learnt, and those that are not."""

    learn: StrictBool = True
    penalty: NotNegative = 20.0
    weights: Weights = ()


@dataclass(frozen=True, config=_SECTION)
class RebuildSettings:
    """When a day is computed from all users instead of from its changed users."""

    capture_threshold: Share = 0.98


@dataclass(frozen=True, config=_SECTION)
class TuningSettings:
    """How often settings that are not fixed are chosen anew."""

    every_days: CountOrZero = 28


@dataclass(frozen=True, config=_SECTION)
class ServingSettings:
    """The lists that are kept for every user."""

    list_length: Count = 20
    exclude_seen: StrictBool = True
    exclude_items: Texts = ()
    exclude_groups: Texts = ()
    max_per_group: CountOrZero = 0
    diversity: Annotated[StrictFloat, Field(ge=0, lt=1)] = 0.0


@dataclass(frozen=True, config=_SECTION)
class EvaluationSettings:
    """How a model is compared with what users took afterwards."""

    horizon_days: Count = 7
    cutoffs: Cutoffs = (5, 10, 20, 40, 60, 80, 100, 200, 300, 400, 500)


@dataclass(frozen=True, config=_SECTION)
class PromotionSettings:
    """When a day's model takes the place of the one in use, and how many versions are kept."""

    enabled: StrictBool = True
    max_loss: Share = 0.05
    keep_versions: CountOrZero = 1


@dataclass(frozen=True, config=_SECTION)
class ComparisonSettings:
    """Which methods the asset `model_comparison` compares."""

    methods: Names = ("popularity", "item-knn", "mom-balanced", "three-moment")


@dataclass(frozen=True, config=_SECTION)
class WarehouseSettings:
    """How the DuckDB file is opened."""

    lock_wait_seconds: NotNegative = 30.0
    memory_limit: MemoryLimit = "1GB"


@dataclass(frozen=True, config=_SECTION)
class ArtifactSettings:
    """How many days keep their arrays (0: all)."""

    retention_days: CountOrZero = 35


@dataclass(frozen=True, config=_SECTION)
class AlertSettings:
    """Whom to notify of runs and checks that failed."""

    webhook: Webhook = ""
    command: Texts = ()


@dataclass(frozen=True, config=_SECTION)
class EngineSettings:
    """Who visits the users of a day."""

    kind: Literal["local", "dask"] = "local"
    address: StrictStr = ""
    workers: Count = 2
    shards_url: StrictStr = ""

    @property
    def mapped(self) -> bool:
        """Whether rows stay in files: with a cluster no process is to hold those of all users."""
        return self.kind != "local"


class Settings(BaseSettings):
    """All settings of one data folder."""

    # strict: variables are read as the type of their key; the sections have strict types.
    model_config = SettingsConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        env_prefix="MOM_",
        env_nested_delimiter="__",
        enable_decoding=False,
        ignored_types=(_Below,),
    )
    logs_dir = _Below("logs")
    warehouse_path = _Below("warehouse.duckdb")
    artifacts_dir = _Below("artifacts")
    comparisons_dir = _Below("comparisons")
    models_dir = _Below("models")
    reports_dir = _Below("reports")
    exports_dir = _Below("exports")
    erasures_dir = _Below("erasures")
    shop_dir = _Below("shop")
    scratch_dir = _Below("tmp")

    data_dir: Path
    fixed: tuple[str, ...] = ()  # keys of [model] and [ranking] that a source names: not for choice
    pipeline: PipelineSettings = PipelineSettings()
    logs: LogSettings = LogSettings()
    matrix: MatrixSettings = MatrixSettings()
    model: ModelSettings = ModelSettings()
    ranking: RankingSettings = RankingSettings()
    rebuild: RebuildSettings = RebuildSettings()
    tuning: TuningSettings = TuningSettings()
    serving: ServingSettings = ServingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    promotion: PromotionSettings = PromotionSettings()
    comparison: ComparisonSettings = ComparisonSettings()
    warehouse: WarehouseSettings = WarehouseSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    alerts: AlertSettings = AlertSettings()
    engine: EngineSettings = EngineSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: Any,
        env_settings: Any,
        *_: Any,
        **__: Any,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments before the environment before the file of the folder."""
        given = init_settings.init_kwargs
        named = given.pop("environment", os.environ)
        env_settings.env_vars = variables = {name.lower(): text for name, text in named.items()}
        file = TomlConfigSettingsSource(settings_cls, given["data_dir"] / SETTINGS_FILE)
        # Sections that do not exist; pydantic-settings would skip such variables silently.
        sections = {name[4:].split("__")[0] for name in variables if re.match("mom_.*__", name)}
        for name in (_NOT_KEYS & file.toml_data.keys()) | (sections - set(_sections())):
            raise InvalidSetting(_unknown([name], name))
        return init_settings, env_settings, file

    @model_validator(mode="before")
    @classmethod
    def _with_fixed(cls, values: dict[str, Any]) -> dict[str, Any]:
        named = ((section, values.get(section)) for section in ("model", "ranking"))
        fixed = (f"{s}.{key}" for s, keys in named if isinstance(keys, dict) for key in keys)
        return values | {"fixed": tuple(fixed)}

    @model_validator(mode="after")
    def _evaluated_before_removed(self) -> Self:
        kept, horizon = self.artifacts.retention_days, self.evaluation.horizon_days
        _require(
            kept == 0 or kept > horizon + 1,
            f"0 (keep all) or above evaluation.horizon_days + 1 = {horizon + 1}: the model of "
            "that day is still to be evaluated",
            kept,
            "artifacts",
            "retention_days",
        )
        return self

    def first_and_last_day(self) -> tuple[date, date]:
        """Return the delivery days between which a day can be computed now."""
        today = datetime.now(tz=self.logs.zone).date()
        first, last = self.pipeline.start_date or EARLIEST_DAY, self.pipeline.end_date
        return date.fromisoformat(first), min(today, date.fromisoformat(last)) if last else today


def load_settings(
    data_dir: Path | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings of a data folder; InvalidSetting for unknown keys and values out of range."""
    environment = os.environ if environment is None else environment
    folder = data_dir or Path(environment.get(DATA_DIR_VARIABLE) or "data")
    file = folder / SETTINGS_FILE
    values: dict[str, Any] = {"data_dir": folder, "environment": environment}
    if file.exists() and not file.is_file():
        raise InvalidSetting(f"{file} must be a file, found a folder; remove it")
    try:
        return Settings(**values)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} is not valid TOML ({error}); correct it") from error
    except ValidationError as error:
        raise InvalidSetting(_mistakes(error, file, environment)) from None


@lru_cache(maxsize=256, typed=True)
def fingerprint(*sections: Any) -> str:
    """sha256 over sections or single values: equal settings, equal fingerprint."""
    text = json.dumps(sections, sort_keys=True, default=asdict)
    return hashlib.sha256(text.encode()).hexdigest()


def checked(section: type[T], **values: Any) -> T:
    """Make a section; InvalidSetting says what is wrong with its values."""
    try:
        return section(**values)
    except ValidationError as error:
        raise InvalidSetting(_mistakes(error)) from None


def _mistakes(
    error: ValidationError, file: Path | None = None, variables: Collection[str] = ()
) -> str:
    """Return a sentence for each value that was refused: where, what was expected, and found."""
    return "\n".join(_mistake(one, file, variables) for one in error.errors())


def _mistake(one: ErrorDetails, file: Path | None, variables: Collection[str]) -> str:
    context = one.get("ctx", {})
    keys = [key for key in (*one["loc"], *context.get("keys", ())) if isinstance(key, str)]
    place = f"MOM_{'__'.join(keys).upper()}"
    if place not in variables:
        place = ".".join(keys) + (f" in {file}" if file else "")
    if one["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return _unknown(keys, place)
    expected = re.sub(r"^\w+ should ", "must ", one["msg"])
    if one["type"] == "dataclass_type":
        expected = f"must be a section [{'.'.join(keys)}]"
    return f"{place} {expected}, found {context.get('value', one['input'])!r}"


def _sections() -> list[str]:
    return [name for name in Settings.model_fields if name not in _NOT_KEYS]


def _unknown(keys: list[str], place: str) -> str:
    """What to say about a key that its section does not have."""
    names = _sections()
    if len(keys) > 1:
        section = Settings.model_fields[keys[0]].default
        for key in keys[1:-1]:
            section = getattr(section, key)
        names = [field.name for field in fields(section)]
    near = difflib.get_close_matches(keys[-1], names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown setting {place}; {meant}known here: {', '.join(names)}"
