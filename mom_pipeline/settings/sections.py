"""The sections of the settings: a frozen pydantic dataclass each, and the types of their values.

Types are strict. The defaults of `[model]` are those of `MethodOfMoments`.
"""

import json
import re
from dataclasses import asdict, field, fields
from datetime import date
from typing import Annotated, Any, Self, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BeforeValidator,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from mom_pipeline.core.algorithm.decomposition import DecompositionName
from mom_pipeline.core.algorithm.recovery import ProjectionName
from mom_pipeline.core.interactions import RowsName
from mom_pipeline.core.model import MethodOfMoments
from mom_pipeline.core.moments.estimators import EstimatorName, own_rows
from mom_pipeline.core.ranking.memberships import RuleName
from mom_pipeline.core.ranking.score import RankingName
from mom_pipeline.settings.checking import (
    NotNegative,
    Positive,
    one_of,
    require,
    rule,
    section,
)

DELIMITERS = (",", ";", "|")
# Of the code that judges a line: 2 since times, weights, ids and keys are checked by their form.
RULES_VERSION = 2
# Settings of [logs] that refuse a whole file and say nothing about a line.
_OF_FILES = ("max_reject_share", "require_checksum")
TIMESTAMP_FORMATS = ("iso", "epoch_s", "epoch_ms")
ENGINES = ("local", "dask")
ESTIMATORS: tuple[EstimatorName, ...] = get_args(EstimatorName)
PERSONALIZATIONS: tuple[RuleName, ...] = get_args(RuleName)
_WEB = re.compile(r"https?://[^/\s]")
_MODEL: dict[str, Any] = {f.name: f.default for f in fields(MethodOfMoments)}


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


Count = Annotated[StrictInt, rule("at least 1", lambda n: n >= 1)]
CountOrZero = Annotated[StrictInt, rule("0 or more", lambda n: n >= 0)]
Share = Annotated[StrictFloat, rule("in [0, 1]", lambda x: 0 <= x <= 1)]
Inside = Annotated[StrictFloat, rule("between 0 and 1", lambda x: 0 < x < 1)]
BelowOne = Annotated[StrictFloat, rule("between 0 and 1", lambda x: 0 <= x < 1)]
Day = Annotated[StrictStr, rule("empty or a YYYY-MM-DD", lambda text: not text or _is_day(text))]
Zone = Annotated[StrictStr, rule("an IANA zone such as 'UTC' or 'Asia/Taipei'", _is_zone)]
ColumnName = Annotated[
    StrictStr,
    rule("one of printable names without quotes", lambda s: '"' not in s and s.isprintable()),
]
RequiredColumn = Annotated[ColumnName, rule("a column name", bool)]
TimestampFormat = Annotated[
    StrictStr,
    rule(
        f"one of {TIMESTAMP_FORMATS} or a pattern such as '%d/%m/%Y %H:%M'",
        lambda text: text in TIMESTAMP_FORMATS or "%" in text,
    ),
]
MemoryLimit = Annotated[
    StrictStr,
    rule(
        "empty or like '4GB'",
        lambda text: not text or re.fullmatch(r"\d+(\.\d+)? ?[KMGT]i?B", text) is not None,
    ),
]
# A list in the file, comma-separated in the environment.
Cutoffs = Annotated[tuple[StrictInt, ...], rule("ascending numbers from 1 on", _is_ascending)]
Texts = tuple[StrictStr, ...]
Names = Annotated[tuple[StrictStr, ...], rule("at least one name", bool)]
Webhook = Annotated[
    StrictStr,
    rule('"" or begin with http:// or https://', lambda t: not t or bool(_WEB.match(t))),
]
# "classes" is the earlier name.
Ranking = Annotated[
    RankingName, BeforeValidator(lambda value: "components" if value == "classes" else value)
]


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
    """How log files are read, and which of them are refused (`_OF_FILES`)."""

    timezone: Zone = "UTC"
    delimiter: Annotated[StrictStr, one_of(DELIMITERS)] = ","
    timestamp_format: TimestampFormat = "iso"
    max_reject_share: Share = 0.01
    require_checksum: StrictBool = False
    columns: ColumnSettings = field(default_factory=ColumnSettings)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def reading_rules(self) -> str:
        """What decides what a line means, as canonical JSON for the ledger.

        A file that was read by other rules is read again, so code that judges lines differently
        has another RULES_VERSION.
        """
        rules = {key: value for key, value in asdict(self).items() if key not in _OF_FILES}
        rules["version"] = RULES_VERSION
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
    rows: RowsName = own_rows(_MODEL["estimator"])
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
    pair_drift: Share = 0.5
    pair_megabytes: Count = 1024
    dense_megabytes: Count = 256
    frequent_items: Annotated[StrictInt, rule("at least 2", lambda n: n >= 2)] = 200
    anchor_width: CountOrZero = 0

    @property
    def pair_bytes(self) -> int:
        return self.pair_megabytes * 2**20

    @property
    def dense_bytes(self) -> int:
        return self.dense_megabytes * 2**20


@section("tuning")
class TuningSettings:
    """How often settings that are not fixed are chosen anew, and how long that may take."""

    every_days: CountOrZero = 28
    pair_growth: NotNegative = 0.25
    budget_seconds: Positive = 120.0


@section("serving")
class ServingSettings:
    """The lists that are kept for every user."""

    list_length: Count = 20
    exclude_seen: StrictBool = True
    refresh_drift: Share = 0.1
    leave_out_items: Texts = ()
    leave_out_groups: Texts = ()


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
    keep_versions: CountOrZero = 1


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
    """How many days keep their arrays, beside one day a month (0: all), moments and lists."""

    retention_days: CountOrZero = 35
    moment_megabytes: CountOrZero = 48
    list_days: Count = 7


@section("alerts")
class AlertSettings:
    """Whom to tell of runs and checks that failed."""

    webhook: Webhook = ""
    command: tuple[StrictStr, ...] = ()


@section("engine")
class EngineSettings:
    """Who visits the users of a day."""

    kind: Annotated[StrictStr, one_of(ENGINES)] = "local"
    address: StrictStr = ""
    workers: Count = 2
    shards_url: StrictStr = ""

    @property
    def mapped(self) -> bool:
        """Whether rows stay in files: with a cluster no process is to hold those of all users."""
        return self.kind != "local"
