"""Results of a comparison, and their two files: JSON, and the values of each user."""

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.comparison.isolated import memory_of_machine
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import sha256_of, write_text, writing
from mom_pipeline.core.threads import available_cores
from mom_pipeline.core.types import Float64

SUMMARY = "comparison.json"
# The file of the users' values until its contents, which it is named after, are known.
_UNNAMED = "per-user-new.npz"
_LIBRARIES = ("mom-pipeline", "numpy", "scipy", "implicit")


class ComparisonError(MomError):
    """The data or the choice of methods leave nothing to compare."""


class DamagedComparison(MomError):
    """A stored comparison cannot be read back as it was written."""


@dataclass(frozen=True)
class DataDescription:
    """The paper's Table 1 for one split; sparsity is the share of empty cells in percent.

    kind: of data, in a word or two.
    """

    name: str
    users: int
    items: int
    train_tuples: int
    test_tuples: int
    sparsity: float
    kind: str = ""


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
    per_user: metric name -> (users, cut-offs), the same users in the same order for every method.
    coverage: share of the catalogue in any list, per cut-off.
    novelty: mean of -log2(share of users who took the item) over the lists, per cut-off.
    differences: metric name -> one interval per cut-off; empty for the reference itself.
    groups: nDCG of users and of items apart; see `breakdown`.
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
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    choice_seconds: float = 0.0
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    peak_bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """All methods on one split.

    period: how the split was made, in words.  reference: name of the method that differences
    are taken to.  n_users: users measured; n_dropped: those without a relevant test item;
    n_newcomers: test users without a history, left out as well.  n_unknown: relevant
    pairs whose item is not in the catalogue, missed by every method.
    day: the last test day, empty for a ready split.
    threads: 1 when every method had one core, 0 for all.  created, machine, versions: when and
    where it was run.
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
    day: str = ""
    n_newcomers: int = 0
    n_unknown: int = 0
    threads: int = 0
    created: str = ""
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def result(self, name: str) -> MethodResult:
        """Return the result of a method; KeyError when it did not take part."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(name)


def save(comparison: Comparison, folder: Path) -> None:
    """Write a comparison into a folder, in place of the one that is there.

    The summary names the file of the users' values, and is written last: whoever reads finds
    the old comparison or the new one, whole.
    """
    arrays = {
        f"{result.name}/{metric}": values
        for result in comparison.results
        for metric, values in result.per_user.items()
    }
    with writing(folder / _UNNAMED) as out:
        np.savez_compressed(out, allow_pickle=False, **arrays)
    digest = sha256_of(folder / _UNNAMED)
    name = f"per-user-{digest[:16]}.npz"
    (folder / _UNNAMED).replace(folder / name)
    bare = replace(comparison, results=tuple(replace(r, per_user={}) for r in comparison.results))
    summary = {"per_user": name, "sha256": digest, "comparison": asdict(bare)}
    write_text(folder / SUMMARY, json.dumps(summary, indent=1, ensure_ascii=False, default=str))
    for old in folder.glob("per-user-*.npz"):
        if old.name != name:
            old.unlink()


def load(folder: Path, *, per_user: bool = True) -> Comparison:
    """Read what `save` wrote; DamagedComparison when it is missing or not whole.

    per_user: with the users' values, which are most of it.
    """
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        values, path = summary["comparison"], folder / summary["per_user"]
        if sha256_of(path) != summary["sha256"]:
            raise DamagedComparison(f"{path} is damaged; compare again")
        with np.load(path, allow_pickle=False) as arrays:
            used = arrays if per_user else None
            results = tuple(_result(entry, used) for entry in values["results"])
    except FileNotFoundError as error:
        raise DamagedComparison(
            f"there is no whole comparison in {folder}; run `mom-pipeline compare`"
        ) from error
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise DamagedComparison(
            f"{folder / SUMMARY} is damaged ({error}); compare again"
        ) from error
    data, cutoffs = DataDescription(**values["data"]), tuple(values["cutoffs"])
    return Comparison(**{**values, "data": data, "cutoffs": cutoffs, "results": results})


def _result(values: dict[str, Any], arrays: Any) -> MethodResult:
    """Return one method with its tuples, intervals and arrays as they were."""
    fields = {
        "means": {name: tuple(row) for name, row in values["means"].items()},
        "per_user": {}
        if arrays is None
        else {name: arrays[f"{values['name']}/{name}"] for name in values["means"]},
        "coverage": tuple(values["coverage"]),
        "novelty": tuple(values["novelty"]),
        "differences": {
            name: tuple(Interval(**interval) for interval in row)
            for name, row in values["differences"].items()
        },
    }
    return MethodResult(**{**values, **fields})


def newest_until(folder: Path, day: date) -> Comparison | None:
    """The comparison with the latest test day up to a day, or None; of several, the newest made.

    Without the users' values. Ready splits have no day and are left out, as is what is damaged.
    """
    candidates = []
    for path in folder.glob(f"*/{SUMMARY}"):
        made = _day_and_time(path)
        if made is not None and made[0] and made[0] <= day.isoformat():
            candidates.append((*made, path.parent))
    for *_, stored in sorted(candidates, reverse=True):
        try:
            return load(stored, per_user=False)
        except DamagedComparison:
            continue
    return None


def _day_and_time(summary: Path) -> tuple[str, str] | None:
    """The day and the time of making; None where the file cannot be read."""
    try:
        comparison = json.loads(summary.read_text(encoding="utf-8"))["comparison"]
        return str(comparison["day"]), str(comparison["created"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def surroundings() -> dict[str, Any]:
    """Return the time, the machine in words, and versions by library."""
    memory = memory_of_machine() / 1e9
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{available_cores()} cores of {_processor()}, {memory:.0f} GB",
        "versions": versions(_LIBRARIES),
    }


def _processor() -> str:
    """Return the name of the processor, or at least its kind."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the version of Python and of every library that is installed."""
    installed = {"python": platform.python_version()}
    for name in libraries:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed
