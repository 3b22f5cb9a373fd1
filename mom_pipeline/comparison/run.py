"""A comparison from a split to its results: choose settings, fit, make lists, measure."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.comparison.breakdown import breakdown
from mom_pipeline.comparison.fitting import Answer, Task, read_lists, run_task, write_data
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.methods.interface import Method, Setting, Settings
from mom_pipeline.comparison.results import (
    Comparison,
    ComparisonError,
    Interval,
    MethodResult,
    surroundings,
)
from mom_pipeline.comparison.split import Split, Trial
from mom_pipeline.core.evaluation.bootstrap import paired_interval
from mom_pipeline.core.evaluation.catalogue import catalogue_use
from mom_pipeline.core.evaluation.metrics import CUTOFFS, METRICS, evaluate_ranking, nearest_cutoff
from mom_pipeline.core.types import Array, Float64

REGISTRY = "mom_pipeline.comparison.methods"
PARTS = "mom_pipeline.comparison.methods.parts"
REFERENCE = "three-moment"
# Lists of this length decide about settings, for at most so many users.
CHOICE_CUTOFF = 20
CHOICE_USERS = 3000

# Told what is being done, and the share of the settings of all methods that is done.
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Options:
    """How a comparison is run.

    methods: names, in the order of the tables; none: all.  reference: the method that
        differences are taken to; empty: the three-moment ranking, or the last without it.
    n_components: K of every method that has such a number, and whose grid does not choose it.
    budget: of the choice of a method's settings, and again of its fit and lists.
    registry: module whose `METHODS` holds the methods.
    """

    methods: tuple[str, ...] = ()
    reference: str = ""
    n_components: int = 100
    seed: int = 0
    cutoffs: tuple[int, ...] = CUTOFFS
    budget: Budget = field(default_factory=Budget)
    registry: str = REGISTRY


def check_options(options: Options) -> tuple[list[Method], str]:
    """Return the methods and the name of the reference; ComparisonError for unknown names."""
    known: dict[str, Method] = import_module(options.registry).METHODS
    names = list(dict.fromkeys(options.methods or known))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ComparisonError(
            f"unknown method {', '.join(unknown)}; the known ones are {', '.join(known)}"
        )
    reference = options.reference or (REFERENCE if REFERENCE in names else names[-1])
    if reference not in names:
        raise ComparisonError(
            f"the reference {reference} is not among the methods compared, "
            f"{', '.join(names)}; add it, or choose one of them"
        )
    return [known[name] for name in names], reference


def run_comparison(
    split: Split,
    options: Options,
    scratch: Path,
    progress: Progress = lambda text, share: None,
) -> Comparison:
    """Compare the methods on a split, one after another.

    scratch: a folder for the files of the processes; what is written there is removed again.
    """
    methods, reference = check_options(options)
    rng = np.random.default_rng(options.seed)
    validation = split.validation and split.validation.sample(CHOICE_USERS, rng)
    final = split.final
    write_data(scratch / "final", final.train, final.users, last_days=final.last_days)
    if validation is not None:
        later = validation.test_in_catalogue() if split.validation_is_later else None
        folder, last_days = scratch / "validation", validation.last_days
        write_data(folder, validation.train, validation.users, later, last_days)
    work = _Work(split, validation, options, scratch)
    steps = _Steps(progress, [len(m.grid) * (len(m.grid) > 1) + 1 for m in methods])
    results = [_method_result(method, work, steps) for method in methods]
    return Comparison(
        data=split.data,
        period=split.period,
        cutoffs=options.cutoffs,
        reference=reference,
        n_users=len(split.final.users),
        n_dropped=split.final.n_dropped,
        exclude_seen=split.exclude_seen,
        seed=options.seed,
        results=with_differences(results, reference, options.seed),
        day=str(split.day or ""),
        n_newcomers=split.final.n_newcomers,
        n_unknown=split.final.n_unknown,
        threads=options.budget.threads,
        **surroundings(),
    )


class _Steps:
    """Counts the settings done over all methods; reports each state only once."""

    def __init__(self, progress: Progress, per_method: list[int]) -> None:
        self._progress, self._per_method = progress, per_method
        self._methods_done = 0
        self._told: tuple[str, float] | None = None

    def tell(self, text: str, n_done: int) -> None:
        before = sum(self._per_method[: self._methods_done])
        news = (text, (before + n_done) / sum(self._per_method))
        if news != self._told:
            self._told = news
            self._progress(*news)

    def tell_last(self, text: str) -> None:
        """All but the last step of the method are done."""
        self.tell(text, self._per_method[self._methods_done] - 1)

    def next_method(self) -> None:
        self._methods_done += 1


@dataclass(frozen=True)
class _Work:
    """What all methods of a comparison are given, in files below `scratch`."""

    split: Split
    validation: Trial | None
    options: Options
    scratch: Path

    def grid(self, method: Method, trial: Trial) -> tuple[Settings, ...]:
        exclude_seen, K = self.split.exclude_seen, self.options.n_components
        return grid_for(method, K, trial, exclude_seen=exclude_seen)

    def run(
        self,
        data: str,
        method: Method,
        settings: tuple[Settings, ...],
        length: int,
        progress: Callable[[int], None] = lambda n_done: None,
    ) -> tuple[list[Answer], Path]:
        """Fit on the "validation" or the "final" data; returns answers and the folder of lists."""
        options = self.options
        exclude_seen = self.split.exclude_seen
        task = Task(options.registry, method.name, settings, options.seed, length, exclude_seen)
        folder = self.scratch / data / method.name
        return run_task(self.scratch / data, folder, task, options.budget, progress), folder


def grid_for(
    method: Method, n_components: int, trial: Trial, *, exclude_seen: bool = True
) -> tuple[Settings, ...]:
    """Return the grid with K in it, where the method has one and the grid does not choose it.

    No more than the data have users and items. A method that chooses for its lists is told
    when these hold all items.
    """
    common: dict[str, Setting] = {}
    if method.size:
        common[method.size] = min(n_components, *trial.train.shape)
    if method.lists and not exclude_seen:
        common[method.lists] = "all"
    return tuple({**common, **settings} for settings in method.grid)


def _method_result(method: Method, work: _Work, steps: _Steps) -> MethodResult:
    """Choose the settings of a method on validation, then fit and measure it."""
    begin = time.perf_counter()
    chosen = _choose(method, work, steps)
    result = MethodResult(
        method.name,
        method.title,
        failure=chosen.failure,
        choice_seconds=time.perf_counter() - begin,
        notes=chosen.notes,
    )
    if not chosen.failure:
        steps.tell_last(f"{method.title}: final fit")
        settings = {**chosen.settings, **work.grid(method, work.split.final)[chosen.position]}
        result = _final_fit(result, method, settings, work)
    steps.next_method()
    return result


def _final_fit(
    result: MethodResult, method: Method, settings: Settings, work: _Work
) -> MethodResult:
    """Add the figures of a fit on all training data."""
    cutoffs = work.options.cutoffs
    (answer,), folder = work.run("final", method, (settings,), max(cutoffs))
    result = replace(
        result,
        settings=dict(settings),
        failure=answer.failure,
        fit_seconds=answer.fit_seconds,
        predict_seconds=answer.predict_seconds,
        peak_bytes=answer.peak_bytes,
        notes={**answer.notes, **result.notes},
    )
    if not answer.failure:
        result = measured(result, read_lists(folder, 0), work.split.final, cutoffs)
        result = kept_on_disk(result, folder)
    shutil.rmtree(folder)
    return result


@dataclass(frozen=True)
class Chosen:
    """Which setting of the grid is the best.

    failure: why none could be tried; empty otherwise.
    settings: what the method chose by itself beyond the grid.
    """

    position: int = 0
    failure: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def _choose(method: Method, work: _Work, steps: _Steps) -> Chosen:
    """Choose among the grid; a grid of one leaves no choice."""
    n = len(method.grid)
    if n == 1 or work.validation is None:
        return Chosen()

    def tell(n_done: int) -> None:
        text = f"{method.title}: choosing settings, {min(n_done + 1, n)} of {n}"
        steps.tell(text, n_done)

    grid = work.grid(method, work.validation)
    answers, folder = work.run("validation", method, grid, CHOICE_CUTOFF, tell)
    chosen = best_setting(answers, folder, work.validation)
    shutil.rmtree(folder)
    return chosen


def best_setting(answers: Sequence[Answer], folder: Path, trial: Trial) -> Chosen:
    """Choose by the mean of Recall@20 and MAP@20; of equals the first.

    answers, and the lists below `folder`: one for each setting of the grid.
    """
    qualities = [
        None if answer.failure else _list_quality(read_lists(folder, position), trial)
        for position, answer in enumerate(answers)
    ]
    tried = [position for position, quality in enumerate(qualities) if quality is not None]
    if not tried:
        return Chosen(failure=answers[0].failure)
    best = max(tried, key=lambda position: qualities[position] or 0.0)
    notes: dict[str, Any] = {"validation quality by setting": qualities}
    if len(tried) < len(answers):
        reason = next(answer.failure for answer in answers if answer.failure)
        notes["settings tried"] = f"{len(tried)} of {len(answers)}: one {reason}"
    return Chosen(best, "", notes, answers[best].chosen)


def _list_quality(ids: Array, trial: Trial) -> float:
    metrics = evaluate_ranking(ids, trial.test, [CHOICE_CUTOFF])
    return (metrics.recall[CHOICE_CUTOFF] + metrics.map[CHOICE_CUTOFF]) / 2


def measured(
    result: MethodResult, ids: Array, trial: Trial, cutoffs: Sequence[int]
) -> MethodResult:
    """Add every metric at every cut-off. ids: (users of the trial, n), -1 for no item.

    A list that ends before a cut-off, as where the catalogue is smaller, misses the rest.
    """
    metrics = evaluate_ranking(ids, trial.test, cutoffs)
    used = catalogue_use(ids, trial.train, cutoffs)
    return replace(
        result,
        means={name: tuple(getattr(metrics, name).values()) for name in METRICS},
        per_user=metrics.per_user,
        coverage=tuple(used.coverage.values()),
        novelty=tuple(used.novelty.values()),
        groups=breakdown(ids, trial, nearest_cutoff(cutoffs)),
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
    rng = np.random.default_rng(seed)
    # (metrics, cut-offs, 3): difference, low, high
    ends = np.stack(paired_interval(_stacked(result), _stacked(base), rng), axis=-1)
    return {
        name: tuple(Interval(*interval) for interval in row.tolist())
        for name, row in zip(METRICS, ends, strict=True)
    }


def _stacked(result: MethodResult) -> Float64:
    """Return the users' values of all metrics: (users, metrics, cut-offs)."""
    return np.stack([result.per_user[name] for name in METRICS], axis=1)
