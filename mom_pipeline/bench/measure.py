"""Timing by wall clock and by CPU: the second stays honest on a busy machine."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Seconds:
    """Time of one piece of work; `cpu` is summed over the threads of this process."""

    wall: float
    cpu: float


def timed(work: Callable[[], T]) -> tuple[Seconds, T]:
    """Do the work; its time and its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu), result


@dataclass
class Stopwatch:
    """Wall-clock seconds of named steps."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block."""
        begin = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - begin


def compare(name: str, ours: Sequence[Seconds], bare: Sequence[Seconds]) -> dict[str, Any]:
    """The best of each, and the ratios of the best."""
    walls = min(s.wall for s in ours), min(s.wall for s in bare)
    cpus = min(s.cpu for s in ours), min(s.cpu for s in bare)
    return {
        "bare_seconds": walls[1],
        f"{name}_seconds": walls[0],
        "ratio": walls[0] / walls[1],
        "bare_cpu_seconds": cpus[1],
        f"{name}_cpu_seconds": cpus[0],
        "cpu_ratio": cpus[0] / cpus[1],
    }
