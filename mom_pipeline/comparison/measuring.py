"""Lists of a method against what was to be found, and methods against the reference."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mom_pipeline.comparison.results import Interval, MethodResult
from mom_pipeline.comparison.trials import Trial
from mom_pipeline.core.evaluation.bootstrap import paired_interval
from mom_pipeline.core.evaluation.catalogue import catalogue_use
from mom_pipeline.core.evaluation.metrics import METRICS, evaluate_ranking
from mom_pipeline.core.types import Array, Float64


def measured(
    result: MethodResult, ids: Array, trial: Trial, cutoffs: Sequence[int]
) -> MethodResult:
    """Add every metric at every cut-off. ids: (users of the trial, n), -1 for no item.

    A list that ends before a cut-off, as where the catalogue is smaller, misses the rest.
    """
    found = evaluate_ranking(ids, trial.test, cutoffs)
    used = catalogue_use(ids, trial.train, cutoffs)
    return replace(
        result,
        means={name: tuple(getattr(found, name).values()) for name in METRICS},
        per_user=found.per_user,
        coverage=tuple(used.coverage.values()),
        novelty=tuple(used.novelty.values()),
    )


def kept_on_disk(result: MethodResult, folder: Path) -> MethodResult:
    """Return the same with the users' values read from the disk as they are used.

    The file may be removed at once: the system keeps it until the values are gone.
    """
    per_user = {}
    for name, values in result.per_user.items():
        path = folder / f"{name}.npy"
        np.save(path, values, allow_pickle=False)
        per_user[name] = np.load(path, mmap_mode="r", allow_pickle=False)
    return replace(result, per_user=per_user)


def with_differences(
    results: Sequence[MethodResult], reference: str, seed: int
) -> tuple[MethodResult, ...]:
    """Add the difference of every method to the reference, with its paired bootstrap interval.

    Users are resampled in the same way for every method. None where the reference failed.
    """
    (base,) = (result for result in results if result.name == reference)
    return tuple(
        result
        if result is base or result.failure or base.failure
        else replace(result, differences=_differences(result, base, seed))
        for result in results
    )


def _differences(
    result: MethodResult, base: MethodResult, seed: int
) -> dict[str, tuple[Interval, ...]]:
    """Return an interval for each metric and cut-off."""
    found = paired_interval(_stacked(result), _stacked(base), np.random.default_rng(seed))
    # (metrics, cut-offs, 3): difference, low, high
    ends = np.stack(found, axis=-1)
    return {
        name: tuple(Interval(*interval) for interval in row.tolist())
        for name, row in zip(METRICS, ends, strict=True)
    }


def _stacked(result: MethodResult) -> Float64:
    """Return the users' values of all metrics: (users, metrics, cut-offs)."""
    return np.stack([result.per_user[name] for name in METRICS], axis=1)
