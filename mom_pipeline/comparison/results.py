"""Results of a comparison, and their two files: JSON, and the values of each user."""

import json
import platform
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from mom_pipeline.comparison.isolated import memory_of_machine
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import write_text, writing
from mom_pipeline.core.threads import available_cores

SUMMARY = "comparison.json"
_LIBRARIES = ("mom-pipeline", "numpy", "scipy", "implicit")


class ComparisonError(MomError):
    """The data or the choice of methods leave nothing to compare."""


@dataclass(frozen=True)
class DataDescription:
    """The paper's Table 1 for one split. kind: of data, in a word or two."""

    name: str
    users: int
    items: int
    train_tuples: int
    test_tuples: int
    kind: str = ""


@dataclass(frozen=True)
class Interval:
    """A mean difference to the reference and its paired bootstrap interval of 95 %."""

    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class MethodResult:
    """One recommender on the test data."""

    name: str
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    failure: str = ""  # why there are no figures; empty when there are
    # metric -> a value per cut-off
    means: dict[str, tuple[float, ...]] = field(default_factory=dict)
    # metric -> (users, cut-offs), the same users for every method
    per_user: dict[str, Any] = field(default_factory=dict)
    coverage: tuple[float, ...] = ()  # share of the catalogue in any list, per cut-off
    novelty: tuple[float, ...] = ()  # mean of -log2(share of users who took the item), per cut-off
    # metric -> an interval per cut-off; not for the reference
    differences: dict[str, tuple[Interval, ...]] = field(default_factory=dict)
    # nDCG of users and of items apart; see `breakdown`
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    choice_seconds: float = 0.0
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    peak_bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """All methods on one split."""

    data: DataDescription
    period: str  # how the split was made, in words
    cutoffs: tuple[int, ...]
    reference: str  # the method that differences are taken to
    n_users: int  # measured
    n_dropped: int  # without a relevant test item
    exclude_seen: bool
    seed: int
    results: tuple[MethodResult, ...]
    day: str = ""  # the last test day, empty for a ready split
    n_newcomers: int = 0  # without a history: excluded
    n_unknown: int = 0  # relevant pairs outside of the catalogue, missed by all
    created: str = ""
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def result(self, name: str) -> MethodResult:
        """Return the result of a method; KeyError when it did not take part."""
        return {result.name: result for result in self.results}[name]

    def summary(self) -> dict[str, Any]:
        """Return all but the users' values, as plain values."""
        bare = tuple(replace(result, per_user={}) for result in self.results)
        return asdict(replace(self, results=bare))


def save(comparison: Comparison, folder: Path) -> None:
    """Replace the comparison in a folder; the summary last, so readers find the old or the new."""
    arrays = {
        f"{result.name}/{metric}": values
        for result in comparison.results
        for metric, values in result.per_user.items()
    }
    with writing(folder / "per-user.npz") as out:
        np.savez_compressed(out, allow_pickle=False, **arrays)
    text = json.dumps(comparison.summary(), indent=1, ensure_ascii=False, default=str)
    write_text(folder / SUMMARY, text)


def load(folder: Path) -> Comparison:
    """Read what `save` wrote, without the users' values; a ValueError where it is not whole."""
    return TypeAdapter(Comparison).validate_json((folder / SUMMARY).read_bytes())


def newest_until(folder: Path, day: date) -> Comparison | None:
    """The whole comparison of the latest test day up to a day; of several, the newest made."""
    found = []
    for path in folder.glob(f"*/{SUMMARY}"):
        with suppress(OSError, ValueError):
            found.append(load(path.parent))
    dated = [comparison for comparison in found if "" < comparison.day <= day.isoformat()]
    return max(dated, key=lambda comparison: (comparison.day, comparison.created), default=None)


def surroundings() -> dict[str, Any]:
    """Return the time, the machine in words, and versions by library."""
    cpu_info, memory = Path("/proc/cpuinfo"), memory_of_machine() / 1e9
    found = re.search(r"model name\s*: (.+)", cpu_info.read_text() if cpu_info.exists() else "")
    processor = found[1] if found else platform.machine()
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{available_cores()} cores of {processor}, {memory:.0f} GB",
        "versions": versions(_LIBRARIES),
    }


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the version of Python and of every library that is installed."""
    installed = {"python": platform.python_version()}
    for name in libraries:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
