"""The other sections, one frozen dataclass each; `settings.py` puts them together."""

import re
from dataclasses import dataclass

from mom_pipeline.settings.checking import is_day, require

ESTIMATORS = ("balanced", "unbiased", "paper")
PERSONALIZATIONS = ("product", "tempered", "em")
# "classes" is the earlier name of "components".
RANKINGS = ("components", "three-moment", "classes")
ENGINES = ("local", "dask")
PROJECTIONS = ("clip", "simplex")


@dataclass(frozen=True)
class PipelineSettings:
    """The days of the pipeline; an empty day is decided by the log files."""

    start_date: str = ""
    end_date: str = ""

    def __post_init__(self) -> None:
        for key in ("start_date", "end_date"):
            text = getattr(self, key)
            require(not text or is_day(text), f"pipeline.{key}", "empty or a YYYY-MM-DD", text)
        in_order = not (self.start_date and self.end_date) or self.start_date <= self.end_date
        require(in_order, "pipeline.end_date", "on or after start_date", self.end_date)


@dataclass(frozen=True)
class MatrixSettings:
    """Which events make the interaction matrix as of a day."""

    window_days: int = 0
    min_item_users: int = 5
    min_user_items: int = 1

    def __post_init__(self) -> None:
        require(
            self.window_days >= 0, "matrix.window_days", "0 (all days) or more", self.window_days
        )
        for key in ("min_item_users", "min_user_items"):
            require(getattr(self, key) >= 1, f"matrix.{key}", "at least 1", getattr(self, key))


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
    ranking: str = "components"
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
            require(value in allowed, f"model.{key}", f"one of {allowed}", value)
        for key in ("n_components", "em_steps"):
            require(getattr(self, key) >= 1, f"model.{key}", "at least 1", getattr(self, key))
        for key in ("smoothing", "delta"):
            inside = 0 < getattr(self, key) < 1
            require(inside, f"model.{key}", "between 0 and 1", getattr(self, key))
        positive = 0 < self.temperature < float("inf")
        require(positive, "model.temperature", "above 0", self.temperature)
        require(self.seed >= 0, "model.seed", "0 or more", self.seed)


@dataclass(frozen=True)
class RebuildSettings:
    """When a day is computed from all users instead of from its changed users."""

    capture_threshold: float = 0.98
    frequent_items: int = 200

    def __post_init__(self) -> None:
        threshold = self.capture_threshold
        require(0 <= threshold <= 1, "rebuild.capture_threshold", "in [0, 1]", threshold)
        require(
            self.frequent_items >= 2, "rebuild.frequent_items", "at least 2", self.frequent_items
        )


@dataclass(frozen=True)
class ServingSettings:
    """The lists that are kept for every user."""

    list_length: int = 20
    exclude_seen: bool = True
    refresh_drift: float = 0.0

    def __post_init__(self) -> None:
        require(self.list_length >= 1, "serving.list_length", "at least 1", self.list_length)
        drift = self.refresh_drift
        require(0 <= drift <= 1, "serving.refresh_drift", "in [0, 1]", drift)


@dataclass(frozen=True)
class EvaluationSettings:
    """How a model is compared with what users took afterwards."""

    horizon_days: int = 7
    cutoffs: tuple[int, ...] = (5, 10, 20, 40, 60, 80, 100, 200, 300, 400, 500)
    min_agreement: float = 0.5

    def __post_init__(self) -> None:
        horizon = self.horizon_days
        require(horizon >= 1, "evaluation.horizon_days", "at least 1", horizon)
        cutoffs = self.cutoffs
        ascending = bool(cutoffs) and cutoffs[0] >= 1 and list(cutoffs) == sorted(set(cutoffs))
        require(ascending, "evaluation.cutoffs", "ascending numbers from 1 on", cutoffs)
        share = self.min_agreement
        require(0 <= share <= 1, "evaluation.min_agreement", "in [0, 1]", share)


@dataclass(frozen=True)
class PromotionSettings:
    """When a day's model takes the place of the one in use, and how many versions are kept."""

    enabled: bool = True
    max_loss: float = 0.05
    keep_versions: int = 10

    def __post_init__(self) -> None:
        loss = self.max_loss
        require(0 <= loss <= 1, "promotion.max_loss", "in [0, 1]", loss)
        kept = self.keep_versions
        require(kept >= 0, "promotion.keep_versions", "0 (keep all) or more", kept)


@dataclass(frozen=True)
class ComparisonSettings:
    """Which methods the asset `model_comparison` compares, and what each of them may take."""

    methods: tuple[str, ...] = ("popularity", "item-knn", "mom-balanced", "three-moment")
    test_days: int = 7
    every_days: int = 7
    time_budget_seconds: float = 600.0
    memory_budget_gb: float = 8.0

    def __post_init__(self) -> None:
        require(bool(self.methods), "comparison.methods", "at least one method", self.methods)
        for key in ("test_days", "every_days"):
            require(getattr(self, key) >= 1, f"comparison.{key}", "at least 1", getattr(self, key))
        for key in ("time_budget_seconds", "memory_budget_gb"):
            value = getattr(self, key)
            inside = 0 <= value < float("inf")
            require(inside, f"comparison.{key}", "0 (no limit) or more", value)

    @property
    def memory_budget_bytes(self) -> int:
        return int(self.memory_budget_gb * 1e9)


@dataclass(frozen=True)
class WarehouseSettings:
    """How the DuckDB file is opened."""

    lock_wait_seconds: float = 30.0
    threads: int = 0
    memory_limit: str = ""

    def __post_init__(self) -> None:
        wait = self.lock_wait_seconds
        require(0 <= wait < float("inf"), "warehouse.lock_wait_seconds", "0 or more", wait)
        require(self.threads >= 0, "warehouse.threads", "0 (all cores) or more", self.threads)
        limit = self.memory_limit
        known = not limit or re.fullmatch(r"\d+(\.\d+)? ?[KMGT]i?B", limit) is not None
        require(known, "warehouse.memory_limit", "empty or like '4GB'", limit)


@dataclass(frozen=True)
class ArtifactSettings:
    """How long the arrays of past days are kept."""

    retention_days: int = 0

    def __post_init__(self) -> None:
        days = self.retention_days
        require(days >= 0, "artifacts.retention_days", "0 (keep all) or more", days)


@dataclass(frozen=True)
class EngineSettings:
    """Who visits all users when a day is computed in full."""

    kind: str = "local"
    address: str = ""
    workers: int = 2
    shards_url: str = ""

    def __post_init__(self) -> None:
        require(self.kind in ENGINES, "engine.kind", f"one of {ENGINES}", self.kind)
        require(self.workers >= 1, "engine.workers", "at least 1", self.workers)
