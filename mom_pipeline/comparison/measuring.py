"""Lists of a method against what was to be found, and methods against the reference."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mom_pipeline.comparison.results import Interval, MethodResult
from mom_pipeline.comparison.trials import Trial
from mom_pipeline.core.catalogue import catalogue_use
from mom_pipeline.core.metrics import evaluate_ranking
from mom_pipeline.core.types import Array

METRICS = ("precision", "recall", "map", "ndcg")


def measured(result: MethodResult, ids: Array, trial: Trial, cutoffs: Sequence[int]) -> MethodResult:
    """Add every metric at every cut-off. ids: (users of the trial, n), -1 for no item.

    A list that ends before a cut-off, as where the catalogue is smaller, misses the rest.
    """
    found = evaluate_ranking(ids, trial.test, cutoffs)
    used = catalogue_use(ids, trial.train, cutoffs)
    means = {name: tuple(getattr(found, name).values()) for name in METRICS}
    return replace(
        result,
        means=means,
        per_user=found.per_user,
        coverage=tuple(used.coverage.values()),
        novelty=tuple(used.novelty.values()),
    )
