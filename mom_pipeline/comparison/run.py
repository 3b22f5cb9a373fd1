"""A comparison from a split to its results: choose settings, fit, make lists, measure."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.comparison.choosing import CUTOFF, MAX_USERS, Chosen, best_setting
from mom_pipeline.comparison.isolated import run_task
from mom_pipeline.comparison.measuring import kept_on_disk, measured, with_differences
from mom_pipeline.comparison.methods.interface import Method, Settings
from mom_pipeline.comparison.options import Options, chosen_methods, chosen_reference, grid_for
from mom_pipeline.comparison.results import Comparison, MethodResult
from mom_pipeline.comparison.split import Split
from mom_pipeline.comparison.surroundings import surroundings
from mom_pipeline.comparison.tasks import Task, read_lists, write_data, write_later
from mom_pipeline.comparison.trials import Trial

# Told what is being done, and the share of the settings of all methods that is done.
Progress = Callable[[str, float], None]


def run_comparison(
    split: Split,
    options: Options,
    scratch: Path,
    progress: Progress = lambda text, share: None,
) -> Comparison:
    """Compare the methods on a split, one after another.

    scratch: a folder for the files of the processes; what is written there is removed again.
    """
    methods = chosen_methods(options)
    reference = chosen_reference(options, methods)
    rng = np.random.default_rng(options.seed)
    validation = split.validation and split.validation.sample(MAX_USERS, rng)
    for name, trial in (("final", split.final), ("validation", validation)):
        if trial is not None:
            write_data(scratch / name, trial.train, trial.users)
    if validation is not None and split.validation_is_later:
        write_later(scratch / "validation", validation.found_by_row())
    steps = _Steps(progress, [len(m.grid) * (len(m.grid) > 1) + 1 for m in methods])
    results = []
    for method in methods:
        run = _MethodRun(method, split, validation, options, scratch, steps)
        results.append(run.result())
        steps.next_method()
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
    """Counts settings done over all methods; says the same only once."""

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
class _MethodRun:
    """One method: its settings chosen on validation, then fitted on all training data."""

    method: Method
    split: Split
    validation: Trial | None
    options: Options
    scratch: Path
    steps: _Steps

    def result(self) -> MethodResult:
        begin = time.perf_counter()
        chosen = self._chosen()
        shown: dict[str, Any] = {
            "name": self.method.name,
            "title": self.method.title,
            "choice_seconds": time.perf_counter() - begin,
        }
        if chosen.failure:
            return MethodResult(**shown, failure=chosen.failure)
        settings = {**chosen.settings, **self._grid(self.split.final)[chosen.place]}
        self.steps.tell_last(f"{self.method.title}: final fit")
        folder = self.scratch / "final" / self.method.name
        task = self._task((settings,), max(self.options.cutoffs))
        (answer,) = run_task(self.scratch / "final", folder, task, self.options.budget)
        result = MethodResult(
            **shown,
            settings=dict(settings),
            failure=answer.failure,
            fit_seconds=answer.fit_seconds,
            predict_seconds=answer.predict_seconds,
            peak_bytes=answer.peak_bytes,
            notes={**answer.notes, **chosen.notes},
        )
        if not answer.failure:
            lists = read_lists(folder, 0)
            result = measured(result, lists, self.split.final, self.options.cutoffs)
            result = kept_on_disk(result, folder)
        shutil.rmtree(folder)
        return result

    def _chosen(self) -> Chosen:
        """Choose among the grid; a grid of one leaves no choice."""
        grid = self.method.grid
        if len(grid) == 1 or self.validation is None:
            return Chosen()
        folder = self.scratch / "validation" / self.method.name
        task = self._task(self._grid(self.validation), CUTOFF)

        def tell(n_done: int) -> None:
            n_shown = min(n_done + 1, len(grid))
            text = f"{self.method.title}: choosing settings, {n_shown} of {len(grid)}"
            self.steps.tell(text, n_done)

        answers = run_task(self.scratch / "validation", folder, task, self.options.budget, tell)
        chosen = best_setting(answers, folder, self.validation)
        shutil.rmtree(folder)
        return chosen

    def _grid(self, trial: Trial) -> tuple[Settings, ...]:
        exclude_seen, K = self.split.exclude_seen, self.options.n_components
        return grid_for(self.method, K, trial, exclude_seen=exclude_seen)

    def _task(self, settings: tuple[Settings, ...], length: int) -> Task:
        return Task(
            registry=self.options.registry,
            method=self.method.name,
            settings=settings,
            seed=self.options.seed,
            length=length,
            exclude_seen=self.split.exclude_seen,
            memory_bytes=self.options.budget.memory_bytes,
        )
