"""What a comparison leaves behind."""

from dataclasses import dataclass, field
from typing import Any

from mom_pipeline.core.types import Float64


@dataclass(frozen=True)
class DataDescription:
    """The paper's Table 1 for one split; sparsity is the share of empty cells in percent."""

    name: str
    users: int
    items: int
    train_tuples: int
    test_tuples: int
    sparsity: float


@dataclass(frozen=True)
class Interval:
    """A mean difference to the reference and its paired bootstrap interval of 95 %."""

    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class MethodResult:
    """One recommender on the test data.

    failure: why there are no figures ("needs 12 GB, allowed 8 GB"); empty when there are.
    means: metric name ("precision", "recall", "map", "ndcg") -> one value per cut-off.
    per_user: metric name -> (users, cut-offs), rows in the order of `Comparison.users`.
    coverage: share of the catalogue in anybody's list, per cut-off.
    novelty: mean of -log2(share of users who took the item) over the lists, per cut-off.
    differences: metric name -> one interval per cut-off; empty for the reference itself.
    """

    name: str
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    means: dict[str, tuple[float, ...]] = field(default_factory=dict)
    per_user: dict[str, Float64] = field(default_factory=dict)
    coverage: tuple[float, ...] = ()
    novelty: tuple[float, ...] = ()
    differences: dict[str, tuple[Interval, ...]] = field(default_factory=dict)
    choice_seconds: float = 0.0
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    peak_bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """All methods on one split.

    period: how the split was made, in words.  reference: name of the method that differences
    are taken to.  n_users: users measured; n_dropped: those without a test item to be found.
    """

    data: DataDescription
    period: str
    cutoffs: tuple[int, ...]
    reference: str
    n_users: int
    n_dropped: int
    exclude_seen: bool
    seed: int
    results: tuple[MethodResult, ...]
