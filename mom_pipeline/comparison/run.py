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
from mom_pipeline.comparison.fitting import FitAnswer, Task, read_lists, run_task, write_data
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.methods.interface import Method, Settings
from mom_pipeline.comparison.results import (
    Comparison,
    ComparisonError,
    Interval,
    MethodResult,
    surroundings,
)
from mom_pipeline.comparison.split import Split, TrainTest
from mom_pipeline.core.evaluation.bootstrap import paired_interval
from mom_pipeline.core.evaluation.catalogue import catalogue_use
from mom_pipeline.core.evaluation.metrics import CUTOFFS, METRICS, evaluate_ranking, nearest_cutoff
from mom_pipeline.core.types import Array

REGISTRY = "mom_pipeline.comparison.methods"
REFERENCE = "three-moment"
# Lists of this length decide about settings, for at most so many users.
CHOICE_CUTOFF = 20
CHOICE_USERS = 3000

# Called with what is being done, and the share of the settings of all methods that is done.
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Options:
    """How a comparison is run.

    methods: names, in the order of the tables; none: all.  reference: the method that
        differences are taken to; empty: the three-moment ranking, or the last without it.
    n_components: K of every method that has such a number, and whose grid does not choose it.
    budget: of the choice of a method's settings, and again of its fit and lists.
    registry: module whose `METHODS` holds the methods, and whose `ALL` names those of "all".
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
    registry = import_module(options.registry)
    known: dict[str, Method] = registry.METHODS
    names = list(dict.fromkeys(options.methods or registry.ALL))
    if unknown := [name for name in names if name not in known]:
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
    final, validation = split.final, split.validation
    write_data(scratch / "final", final.train, final.users, last_days=final.last_days)
    if validation is not None:
        validation = validation.sample(CHOICE_USERS, rng)
        later = validation.test_in_catalogue() if split.validation_is_later else None
        last_days = validation.last_days
        write_data(scratch / "validation", validation.train, validation.users, later, last_days)
    steps = [len(m.grid) * (len(m.grid) > 1) + 1 for m in methods]
    results = []
    for number, method in enumerate(methods):
        before = sum(steps[:number])

        def tell(text: str, n_done: int, before: int = before) -> None:
            progress(text, (before + n_done) / sum(steps))

        work = _Work(method, split, validation, options, scratch, tell)
        results.append(work.result())
    return Comparison(
        data=split.data,
        period=split.period,
        cutoffs=options.cutoffs,
        reference=reference,
        n_users=len(final.users),
        n_dropped=final.n_dropped,
        exclude_seen=split.exclude_seen,
        seed=options.seed,
        results=with_differences(results, reference, options.seed),
        day=str(split.day or ""),
        n_newcomers=final.n_newcomers,
        n_unknown=final.n_unknown,
        **surroundings(),
    )


def grid_for(
    method: Method, n_components: int, trial: TrainTest, *, exclude_seen: bool = True
) -> tuple[Settings, ...]:
    """Return the grid with K in it, where the method has one and the grid does not choose it.

    No more than the data have users and items. A method that chooses for its lists is told
    when these hold all items.
    """
    common: dict[str, Any] = {}
    if method.size:
        common[method.size] = min(n_components, *trial.train.shape)
    if method.lists and not exclude_seen:
        common[method.lists] = "all"
    return tuple({**common, **settings} for settings in method.grid)


@dataclass(frozen=True)
class _Work:
    """One method of a comparison. tell: called with a text and the number of settings done."""

    method: Method
    split: Split
    validation: TrainTest | None
    options: Options
    scratch: Path
    tell: Callable[[str, int], None]

    def result(self) -> MethodResult:
        """Choose the settings of the method on validation, then fit and measure it."""
        begin, method, final = time.perf_counter(), self.method, self.split.final
        chosen = self._choose()
        result = MethodResult(
            method.name,
            method.title,
            failure=chosen.failure,
            choice_seconds=time.perf_counter() - begin,
            notes=chosen.notes,
        )
        if chosen.failure:
            return result
        self.tell(f"{method.title}: final fit", len(method.grid) * (len(method.grid) > 1))
        settings = {**chosen.settings, **self._grid(final)[chosen.position]}
        folder = self.scratch / "final" / method.name
        (answer,) = self._run("final", (settings,), max(self.options.cutoffs))
        result = replace(
            result,
            settings=settings,
            failure=answer.failure,
            fit_seconds=answer.fit_seconds,
            predict_seconds=answer.predict_seconds,
            peak_bytes=answer.peak_bytes,
            notes={**answer.notes, **result.notes},
        )
        if not answer.failure:
            result = measured(result, read_lists(folder, 0), final, self.options.cutoffs)
            result = _kept_on_disk(result, folder)
        shutil.rmtree(folder)
        return result

    def _choose(self) -> "BestSetting":
        """Choose among the grid; a grid of one leaves no choice."""
        n, title = len(self.method.grid), self.method.title
        if n == 1 or self.validation is None:
            return BestSetting()

        def tell(n_done: int) -> None:
            self.tell(f"{title}: choosing settings, {min(n_done + 1, n)} of {n}", n_done)

        answers = self._run("validation", self._grid(self.validation), CHOICE_CUTOFF, tell)
        folder = self.scratch / "validation" / self.method.name
        chosen = best_setting(answers, folder, self.validation)
        shutil.rmtree(folder)
        return chosen

    def _grid(self, trial: TrainTest) -> tuple[Settings, ...]:
        K, exclude_seen = self.options.n_components, self.split.exclude_seen
        return grid_for(self.method, K, trial, exclude_seen=exclude_seen)

    def _run(
        self,
        data: str,
        settings: tuple[Settings, ...],
        length: int,
        progress: Callable[[int], None] = lambda n_done: None,
    ) -> list[FitAnswer]:
        """Fit on the "validation" or the "final" data; lists lie in a folder of the method."""
        options, name, folder = self.options, self.method.name, self.scratch / data
        exclude_seen = self.split.exclude_seen
        task = Task(options.registry, name, settings, options.seed, length, exclude_seen)
        return run_task(folder, folder / name, task, options.budget, progress)


@dataclass(frozen=True)
class BestSetting:
    """Which setting of the grid is the best.

    failure: why none could be tried; empty otherwise.
    settings: what the method chose by itself beyond the grid.
    """

    position: int = 0
    failure: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def best_setting(answers: Sequence[FitAnswer], folder: Path, trial: TrainTest) -> BestSetting:
    """Choose by the mean of Recall@20 and MAP@20; of equals the first.

    answers, and the lists below `folder`: one for each setting of the grid.
    """
    qualities: list[float | None] = [None] * len(answers)
    for position, answer in enumerate(answers):
        if not answer.failure:
            metrics = evaluate_ranking(read_lists(folder, position), trial.test, [CHOICE_CUTOFF])
            qualities[position] = (metrics.recall[CHOICE_CUTOFF] + metrics.map[CHOICE_CUTOFF]) / 2
    tried = {position: q for position, q in enumerate(qualities) if q is not None}
    if not tried:
        return BestSetting(failure=answers[0].failure)
    best = max(tried, key=tried.__getitem__)
    notes: dict[str, Any] = {"validation quality by setting": qualities}
    if len(tried) < len(answers):
        reason = next(answer.failure for answer in answers if answer.failure)
        notes["settings tried"] = f"{len(tried)} of {len(answers)}: one {reason}"
    return BestSetting(best, "", notes, answers[best].chosen)


def measured(
    result: MethodResult, ids: Array, trial: TrainTest, cutoffs: Sequence[int]
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


def _kept_on_disk(result: MethodResult, folder: Path) -> MethodResult:
    """Return the same with the users' values read from the disk as they are used.

    The file may be removed at once: the system keeps it until the values are gone.
    """
    per_user = {}
    for name, values in result.per_user.items():
        np.save(folder / f"{name}.npy", values, allow_pickle=False)
        per_user[name] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
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
    # The users' values of all metrics: (users, metrics, cut-offs).
    ours, theirs = (np.stack([r.per_user[m] for m in METRICS], axis=1) for r in (result, base))
    # (metrics, cut-offs, 3): difference, low, high
    ends = np.stack(paired_interval(ours, theirs, np.random.default_rng(seed)), axis=-1)
    return {
        name: tuple(Interval(*interval) for interval in row.tolist())
        for name, row in zip(METRICS, ends, strict=True)
    }
