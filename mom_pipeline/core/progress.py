"""Progress and times of the stages of a fit, for a callback or a rich progress bar."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

# Called with the name of the stage and the share of it that is done, 0 to 1.
ProgressCallback: TypeAlias = Callable[[str, float], None]


class Stages:
    """Reports and times the stages of a fit."""

    def __init__(self, progress: Any = None) -> None:
        self.seconds: dict[str, float] = {}
        self._report = _as_callback(progress)

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[float], None]]:
        """Time one stage; yields a function that takes the share done."""
        self._report(name, 0.0)
        start = time.perf_counter()
        yield lambda share: self._report(name, share)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self._report(name, 1.0)


def _as_callback(progress: Any) -> ProgressCallback:
    if progress is None:
        return lambda stage, share: None
    if hasattr(progress, "add_task"):
        return _rich_callback(progress)
    callback: ProgressCallback = progress
    return callback


def _rich_callback(bar: Any) -> ProgressCallback:
    """Show each stage as a task of a `rich.progress.Progress`."""
    tasks: dict[str, Any] = {}

    def report(stage: str, share: float) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=1.0)
        bar.update(tasks[stage], completed=share)

    return report
