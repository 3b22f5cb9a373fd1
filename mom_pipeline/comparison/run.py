"""A comparison from a split to its results: choose settings, fit, make lists, measure."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

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
from mom_pipeline.core.evaluation.metrics import (
    CUTOFFS,
    METRICS,
    catalogue_use,
    evaluate_ranking,
    nearest_cutoff,
    paired_interval,
)
from mom_pipeline.core.types import Array, Csr, Float64

REGISTRY = "mom_pipeline.comparison.methods"
REFERENCE = "three-moment"
# Lists of this length decide about settings, for at most so many users.
CHOICE_CUTOFF = 20
CHOICE_USERS = 3000
# nDCG is also given by the length of the history and by the age of the item, in days from its
# first user to the last training day. The largest value of each group:
HISTORY, AGE = "length of history", "age of item"
_LENGTHS, _AGES = (2, 5, 10, 30), (7, 30)
# What a result has of the answer of its process.
_OF_ANSWER = ("failure", "fit_seconds", "predict_seconds", "peak_bytes")

# Called with what is being done, and the share of all that is done.
Progress = Callable[[str, float], None]


def no_progress(text: str, share: float) -> None:
    """Ignore progress."""


def within(progress: Progress, begin: float, share: float, title: str = "") -> Progress:
    """Return a part of a progress bar as one of its own. title: goes before what is being done."""
    return lambda text, done: progress(title + text, begin + share * done)


@dataclass(frozen=True)
class Options:
    """How a comparison is run."""

    methods: tuple[str, ...] = ()  # names, in the order of the tables; none: all
    reference: str = ""  # empty: the three-moment ranking, or the last without it
    n_components: int = 100  # K, where the grid of a method does not choose it
    seed: int = 0
    cutoffs: tuple[int, ...] = CUTOFFS
    # of the choice of a method's settings, and again of its fit
    budget: Budget = field(default_factory=Budget)
    registry: str = REGISTRY  # module with `METHODS`, and `ALL` of their names


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
    progress: Progress = no_progress,
) -> Comparison:
    """Compare the methods on a split, one after another; files in `scratch` are removed again."""
    methods, reference = check_options(options)
    final, rng = split.final, np.random.default_rng(options.seed)
    write_data(scratch / "final", final.users, (final.train, None, final.last_days))
    if split.windows:
        newest = split.windows[0].sample(CHOICE_USERS, rng)
        split = replace(split, windows=(newest, *split.windows[1:]))
        windows = [
            (own.train, own.test_in_catalogue() if split.is_later else None, own.last_days)
            for own in split.windows
        ]
        write_data(scratch / "validation", newest.users, *windows)
    work, share = _Work(split, options, scratch), 1 / len(methods)
    results = [
        work.result(method, within(progress, number * share, share, f"{method.title}: "))
        for number, method in enumerate(methods)
    ]
    base = next(result for result in results if result.name == reference)
    return Comparison(
        data=split.data,
        period=split.period,
        cutoffs=options.cutoffs,
        reference=reference,
        n_users=len(final.users),
        n_dropped=final.n_dropped,
        exclude_seen=split.exclude_seen,
        seed=options.seed,
        results=tuple(_with_differences(result, base, options.seed) for result in results),
        day=str(split.day or ""),
        n_newcomers=final.n_newcomers,
        n_unknown=final.n_unknown,
        **surroundings(),
    )


def grid_for(method: Method, n_components: int, trial: TrainTest) -> tuple[Settings, ...]:
    """The grid of a method, with K where it does not choose K: no more than users and items."""
    K = {method.size: min(n_components, *trial.train.shape)} if method.size else {}
    return tuple({**K, **settings} for settings in method.grid)


@dataclass(frozen=True)
class _Work:
    """What is done with every method; the data lie below `scratch`."""

    split: Split
    options: Options
    scratch: Path

    def result(self, method: Method, tell: Progress) -> MethodResult:
        """Choose the settings of the method on validation, then fit and measure it."""
        begin, final, options = time.perf_counter(), self.split.final, self.options
        n = len(method.grid)
        position, chosen = self._choose(method, tell)
        seconds = time.perf_counter() - begin
        result = MethodResult(method.name, method.title, choice_seconds=seconds, notes=chosen.notes)
        if chosen.failure:
            return replace(result, failure=chosen.failure)
        tell("final fit", n / (n + 1))
        settings = {**chosen.chosen, **grid_for(method, options.n_components, final)[position]}
        with self._fits("final", method, (settings,), max(options.cutoffs)) as ((answer,), folder):
            told: dict[str, Any] = {name: getattr(answer, name) for name in _OF_ANSWER}
            notes = {**answer.notes, **chosen.notes}
            result = replace(result, settings=settings, notes=notes, **told)
            if answer.failure:
                return result
            result = measured(result, read_lists(folder, 0), final, options.cutoffs)
            return replace(result, per_user=_kept_on_disk(result.per_user, folder))

    def _choose(self, method: Method, tell: Progress) -> tuple[int, FitAnswer]:
        """Return the position of the best setting of the grid, and its answer."""
        n, windows = len(method.grid), self.split.windows
        learns = method.choose is not None and self.split.is_later
        if not windows or (n == 1 and not learns):
            return 0, FitAnswer()

        def progress(n_done: int) -> None:
            tell(f"choosing settings, {min(n_done + 1, n)} of {n}", n_done / (n + 1))

        grid = grid_for(method, self.options.n_components, windows[0])
        with self._fits("validation", method, grid, CHOICE_CUTOFF, progress) as (answers, folder):
            return best_setting(answers, folder, windows[0])

    @contextmanager
    def _fits(
        self,
        data: str,
        method: Method,
        settings: tuple[Settings, ...],
        length: int,
        progress: Callable[[int], None] = lambda n_done: None,
    ) -> Iterator[tuple[list[FitAnswer], Path]]:
        """Fit on the "validation" or the "final" data; the lists lie in a folder for the block."""
        options, folder = self.options, self.scratch / data / method.name
        exclude_seen = self.split.exclude_seen
        task = Task(options.registry, method.name, settings, options.seed, length, exclude_seen)
        try:
            yield run_task(folder.parent, folder, task, options.budget, progress), folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def best_setting(
    answers: Sequence[FitAnswer], folder: Path, trial: TrainTest
) -> tuple[int, FitAnswer]:
    """Position and answer of the best mean of Recall@20 and MAP@20; of equals the first."""
    tried: dict[int, float] = {}
    for position, answer in enumerate(answers):
        if not answer.failure:
            metrics = evaluate_ranking(read_lists(folder, position), trial.test, [CHOICE_CUTOFF])
            tried[position] = (metrics.recall[CHOICE_CUTOFF] + metrics.map[CHOICE_CUTOFF]) / 2
    if not tried:
        return 0, answers[0]
    best = max(tried, key=tried.__getitem__)
    qualities = [tried.get(position) for position in range(len(answers))]
    notes: dict[str, Any] = {"validation quality by setting": qualities}
    if len(tried) < len(answers):
        reason = next(answer.failure for answer in answers if answer.failure)
        notes["settings tried"] = f"{len(tried)} of {len(answers)}: one {reason}"
    return best, replace(answers[best], notes=notes)


def measured(
    result: MethodResult, ids: Array, trial: TrainTest, cutoffs: Sequence[int]
) -> MethodResult:
    """Add every metric at every cut-off. ids: (users of the trial, n), -1 for no item: a miss."""
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


def _kept_on_disk(arrays: dict[str, Float64], folder: Path) -> dict[str, Float64]:
    """The same, mapped from files, which may be removed at once: the system keeps them."""
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values, allow_pickle=False)
    return {n: np.load(folder / f"{n}.npy", mmap_mode="r", allow_pickle=False) for n in arrays}


def _with_differences(result: MethodResult, base: MethodResult, seed: int) -> MethodResult:
    """Add differences to the reference, with the same resampled users for every method."""
    if result is base or result.failure or base.failure:
        return result
    # The users' values of all metrics: (users, metrics, cut-offs).
    ours, theirs = (np.stack([r.per_user[m] for m in METRICS], axis=1) for r in (result, base))
    # (metrics, cut-offs, 3): difference, low, high
    ends = np.stack(paired_interval(ours, theirs, np.random.default_rng(seed)), axis=-1)
    by_metric = zip(METRICS, ends.tolist(), strict=True)
    return replace(
        result, differences={name: tuple(Interval(*own) for own in row) for name, row in by_metric}
    )


def breakdown(ids: Array, trial: TrainTest, cutoff: int) -> dict[str, dict[str, float]]:
    """Mean nDCG by length of history, and by age of item as if nothing else were wanted."""
    metrics = evaluate_ranking(ids, trial.test, [cutoff])
    ndcg, lengths = metrics.per_user["ndcg"][:, 0], np.diff(trial.train[trial.users].indptr)
    by_length = {
        f"{name} items ({own.sum():,} users)": float(ndcg[own].mean())
        for name, own in _groups(lengths[metrics.users], _LENGTHS, 1)
        if own.any()
    }
    if trial.last_days is None:
        return {HISTORY: by_length}
    by_age, ages = {}, _ages(trial.last_days)
    for name, own in _groups(ages, _AGES, 0):
        wanted = trial.test.copy()
        wanted.data = np.append(own, False)[np.minimum(wanted.indices, len(ages))].astype(float)
        wanted.eliminate_zeros()
        if wanted.nnz:
            metrics = evaluate_ranking(ids, wanted, [cutoff])
            label = f"{name} days ({metrics.n_users:,} users)"
            by_age[label] = float(metrics.per_user["ndcg"].mean())
    return {HISTORY: by_length, AGE: by_age}


def _groups(values: Array, largest: tuple[int, ...], first: int) -> list[tuple[str, Array]]:
    """Return name and members of every group."""
    group, starts = np.searchsorted(largest, values), (first, *(value + 1 for value in largest))
    names = [f"{start}–{end}" for start, end in zip(starts, largest, strict=False)]
    names.append(f"over {largest[-1]}")
    return [(name, group == number) for number, name in enumerate(names)]


def _ages(last_days: Csr) -> Array:
    """Return the days since the first user of every item, (D,); those of no user are old."""
    days = last_days.tocoo()
    first = np.full(last_days.shape[1], -np.inf)
    first[days.col] = np.inf
    np.minimum.at(first, days.col, days.data)
    return days.data.max() - first
