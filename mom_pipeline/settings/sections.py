"""The sections of the settings: a frozen pydantic dataclass each, and what their errors say.

Types are strict. The defaults of `[model]` and `[ranking]` are those of `MethodOfMoments` and
`RankingWeights`.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, fields, is_dataclass
from datetime import date
from functools import wraps
from typing import (
    Annotated,
    Any,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_type_hints,
)
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import ErrorDetails, PydanticCustomError, core_schema

from mom_pipeline.core.algorithm.decomposition import DecompositionName
from mom_pipeline.core.algorithm.recovery import ProjectionName
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.model import MethodOfMoments
from mom_pipeline.core.moments.estimators import EstimatorName
from mom_pipeline.core.ranking.memberships import RuleName
from mom_pipeline.core.ranking.score import RENAMED_WEIGHTS, RankingName, RankingWeights

# Keys of earlier versions: an error names the new one.
RENAMED = {f"ranking.{old}": f"ranking.{new}" for old, new in RENAMED_WEIGHTS.items()}

DELIMITERS = (",", ";", "|")
TIMESTAMP_FORMATS = ("iso", "epoch_s", "epoch_ms")
ENGINES = ("local", "dask")
ESTIMATORS: tuple[EstimatorName, ...] = get_args(EstimatorName)
PERSONALIZATIONS: tuple[RuleName, ...] = get_args(RuleName)
_MODEL: dict[str, Any] = {f.name: f.default for f in fields(MethodOfMoments)}

T = TypeVar("T")


def _rule(expected: str, holds: Callable[[Any], bool]) -> AfterValidator:
    """A check of one value. expected: completes "must be"."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise PydanticCustomError("setting", "{expected}", {"expected": expected})
        return value

    return AfterValidator(check)


def require(holds: bool, key: str, expected: str, value: object) -> None:
    """A check of several values together, of which `key` is to be corrected."""
    if not holds:
        context = {"expected": expected, "key": key, "value": value}
        raise PydanticCustomError("setting", "{expected}", context)


def _one_of(choices: tuple[str, ...]) -> AfterValidator:
    return _rule(f"one of {choices}", lambda value: value in choices)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_zone(text: str) -> bool:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _is_ascending(numbers: tuple[int, ...]) -> bool:
    return bool(numbers) and numbers[0] >= 1 and list(numbers) == sorted(set(numbers))


Count = Annotated[StrictInt, _rule("at least 1", lambda n: n >= 1)]
CountOrZero = Annotated[StrictInt, _rule("0 or more", lambda n: n >= 0)]
Share = Annotated[StrictFloat, _rule("in [0, 1]", lambda x: 0 <= x <= 1)]
Inside = Annotated[StrictFloat, _rule("between 0 and 1", lambda x: 0 < x < 1)]
BelowOne = Annotated[StrictFloat, _rule("between 0 and 1", lambda x: 0 <= x < 1)]
Positive = Annotated[StrictFloat, _rule("above 0", lambda x: 0 < x < float("inf"))]
NotNegative = Annotated[StrictFloat, _rule("0 or more", lambda x: 0 <= x < float("inf"))]
Day = Annotated[StrictStr, _rule("empty or a YYYY-MM-DD", lambda text: not text or _is_day(text))]
Zone = Annotated[StrictStr, _rule("an IANA zone such as 'UTC' or 'Asia/Taipei'", _is_zone)]
ColumnName = Annotated[
    StrictStr,
    _rule("one of printable names without quotes", lambda s: '"' not in s and s.isprintable()),
]
RequiredColumn = Annotated[ColumnName, _rule("a column name", bool)]
TimestampFormat = Annotated[
    StrictStr,
    _rule(
        f"one of {TIMESTAMP_FORMATS} or a pattern such as '%d/%m/%Y %H:%M'",
        lambda text: text in TIMESTAMP_FORMATS or "%" in text,
    ),
]
MemoryLimit = Annotated[
    StrictStr,
    _rule(
        "empty or like '4GB'",
        lambda text: not text or re.fullmatch(r"\d+(\.\d+)? ?[KMGT]i?B", text) is not None,
    ),
]
# A list in the file, comma-separated in the environment.
Cutoffs = Annotated[tuple[StrictInt, ...], _rule("ascending numbers from 1 on", _is_ascending)]
Names = Annotated[tuple[StrictStr, ...], _rule("at least one name", bool)]
# "classes" is the earlier name.
Ranking = Annotated[
    RankingName, BeforeValidator(lambda value: "components" if value == "classes" else value)
]


def invalid(
    error: ValidationError, root: type, name: str = "", environment: Mapping[str, str] | None = None
) -> InvalidSetting:
    """Every mistake in a sentence. root: the class that was checked; name: its section."""
    known = environment or {}
    return InvalidSetting("\n".join(_sentence(one, root, name, known) for one in error.errors()))


def _sentence(one: ErrorDetails, root: type, name: str, environment: Mapping[str, str]) -> str:
    context = one.get("ctx", {})
    keys = [key for key in (*one["loc"], context.get("key")) if key and isinstance(key, str)]
    dotted = ".".join([name, *keys] if name else keys)
    if one["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return unknown(dotted, type_of(root, keys[:-1]))
    value = context.get("value", one["input"])
    if one["type"] == "dataclass_type":
        return f"{dotted} must be a section [{dotted}], found {value!r}"
    variable = f"MOM_{dotted.upper().replace('.', '__')}"
    shown = variable if variable in environment else dotted
    if one["type"] in ("setting", "literal_error"):
        either = "one of " if one["type"] == "literal_error" else ""
        return f"{shown} must be {either}{context['expected']}, found {value!r}; correct it there"
    expected = _TYPES.get(one["type"], one["msg"])
    if one["type"] == "tuple_type":
        expected += get_args(type_of(root, keys))[0].__name__
    return f"{shown} must be {expected}, found {value!r} of type {type(value).__name__}"


_TYPES = {
    "string_type": "of type str",
    "int_type": "of type int",
    "float_type": "of type float",
    "bool_type": "true or false",
    "tuple_type": "a list of ",
}


def unknown(dotted: str, section: type) -> str:
    """What to say about a key that its section does not have."""
    if dotted in RENAMED:
        return f"setting {dotted!r} is called {RENAMED[dotted]!r} now; rename it"
    names = [f.name for f in fields(section) if f.name != "data_dir"]
    near = difflib.get_close_matches(dotted.rpartition(".")[2], names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown setting {dotted!r}; {meant}known here: {', '.join(names)}"


def type_of(root: type, keys: Sequence[str]) -> Any:
    """The type of a key below a section; str where there is none such."""
    here: Any = root
    for key in keys:
        here = get_type_hints(here).get(key, str) if is_dataclass(here) else str
        here = _RankingKeys if here is RankingWeights else here
    return here


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def section(name: str) -> Callable[[type[T]], type[T]]:
    """Make a class a section of the settings; wrong values raise InvalidSetting."""

    def decorate(cls: type[T]) -> type[T]:
        made: Any = pydantic_dataclass(frozen=True, config=ConfigDict(extra="forbid"))(cls)
        checked = made.__init__

        @wraps(checked)
        def init(self: Any, *args: Any, **values: Any) -> None:
            try:
                checked(self, *args, **values)
            except ValidationError as error:
                raise invalid(error, cls, name) from None

        made.__init__ = init
        return cast("type[T]", made)

    return decorate


@section("pipeline")
class PipelineSettings:
    """The days of the pipeline; an empty day is decided by the log files."""

    start_date: Day = ""
    end_date: Day = ""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        holds = not (self.start_date and self.end_date) or self.start_date <= self.end_date
        require(holds, "end_date", "on or after start_date", self.end_date)
        return self


@section("logs.columns")
class ColumnSettings:
    """Names of the columns in the log files; an empty optional name means "not there"."""

    user: RequiredColumn = "user"
    item: RequiredColumn = "item"
    timestamp: RequiredColumn = "timestamp"
    weight: ColumnName = ""
    exclude: ColumnName = ""

    @model_validator(mode="after")
    def _different(self) -> Self:
        names = [name for name in (getattr(self, f.name) for f in fields(self)) if name]
        require(len(set(names)) == len(names), "", "different names", names)
        return self


@section("logs")
class LogSettings:
    """How log files are read. Everything but `max_reject_share` decides what a line means."""

    timezone: Zone = "UTC"
    delimiter: Annotated[StrictStr, _one_of(DELIMITERS)] = ","
    timestamp_format: TimestampFormat = "iso"
    max_reject_share: Share = 0.01
    columns: ColumnSettings = field(default_factory=ColumnSettings)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def reading_rules(self) -> str:
        """The settings that decide what a line means, as canonical JSON for the ledger."""
        rules = asdict(self)
        del rules["max_reject_share"]
        return json.dumps(rules, sort_keys=True, ensure_ascii=False)


@section("matrix")
class MatrixSettings:
    """Which events make the interaction matrix as of a day."""

    window_days: CountOrZero = 0
    min_item_users: Count = 5
    min_user_items: Count = 1


@section("model")
class ModelSettings:
    """The method: which moments, how many components, and how a history becomes a list."""

    n_components: Count = _MODEL["n_components"]
    estimator: EstimatorName = _MODEL["estimator"]
    decomposition: DecompositionName = _MODEL["decomposition"]
    projection: ProjectionName = _MODEL["projection"]
    cap_weights: StrictBool = _MODEL["cap_weights"]
    personalization: RuleName = _MODEL["personalization"]
    temperature: Positive = _MODEL["temperature"]
    em_steps: Count = _MODEL["em_steps"]
    smoothing: BelowOne = _MODEL["smoothing"]
    ranking: Ranking = _MODEL["ranking"]
    delta: Inside = _MODEL["delta"]
    seed: CountOrZero = _MODEL["seed"]


@section("rebuild")
class RebuildSettings:
    """When a day is computed from all users instead of from its changed users."""

    capture_threshold: Share = 0.98
    frequent_items: Annotated[StrictInt, _rule("at least 2", lambda n: n >= 2)] = 200
    anchor_width: CountOrZero = 0


@section("serving")
class ServingSettings:
    """The lists that are kept for every user."""

    list_length: Count = 20
    exclude_seen: StrictBool = True
    refresh_drift: Share = 0.0


@section("evaluation")
class EvaluationSettings:
    """How a model is compared with what users took afterwards."""

    horizon_days: Count = 7
    cutoffs: Cutoffs = (5, 10, 20, 40, 60, 80, 100, 200, 300, 400, 500)
    min_agreement: Share = 0.5


@section("promotion")
class PromotionSettings:
    """When a day's model takes the place of the one in use, and how many versions are kept."""

    enabled: StrictBool = True
    max_loss: Share = 0.05
    keep_versions: CountOrZero = 10


@section("comparison")
class ComparisonSettings:
    """Which methods the asset `model_comparison` compares, and what each of them may take."""

    methods: Names = ("popularity", "item-knn", "mom-balanced", "three-moment")
    test_days: Count = 7
    every_days: Count = 7
    time_budget_seconds: NotNegative = 600.0
    memory_budget_gb: NotNegative = 8.0

    @property
    def memory_budget_bytes(self) -> int:
        return int(self.memory_budget_gb * 1e9)


@section("warehouse")
class WarehouseSettings:
    """How the DuckDB file is opened."""

    lock_wait_seconds: NotNegative = 30.0
    threads: CountOrZero = 0
    memory_limit: MemoryLimit = ""


@section("artifacts")
class ArtifactSettings:
    """How long the arrays of past days are kept."""

    retention_days: CountOrZero = 0


@section("engine")
class EngineSettings:
    """Who visits all users when a day is computed in full."""

    kind: Annotated[StrictStr, _one_of(ENGINES)] = "local"
    address: StrictStr = ""
    workers: Count = 2
    shards_url: StrictStr = ""


# The keys of [ranking] are the fields of RankingWeights, checked as those of a section.
_RankingKeys: Any = section("ranking")(
    type(
        "_RankingKeys",
        (),
        {f.name: f.default for f in fields(RankingWeights)}
        | {"__annotations__": {f.name: NotNegative for f in fields(RankingWeights)}},
    )
)


class FromKeys:
    """Marks RankingWeights that are read from the keys of [ranking]."""

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.no_info_wrap_validator_function(
            _weights, handler.generate_schema(_RankingKeys)
        )


def _weights(given: Any, keys_of: Callable[[Any], Any]) -> RankingWeights:
    if isinstance(given, RankingWeights):
        return given
    return RankingWeights(**asdict(keys_of(given)))
