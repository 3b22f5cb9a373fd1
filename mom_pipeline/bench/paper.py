"""The paper's Table 2 again: seconds and memory of the methods on data of the paper's sizes."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench import paper_methods
from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.comparison.isolated import Budget, run_task
from mom_pipeline.comparison.surroundings import surroundings
from mom_pipeline.comparison.tasks import Answer, Task, write_data

N_COMPONENTS = 100
TIME_BUDGET = 3600.0
# Name of a mode to the cores of a process; 0: all.
THREADS = {"one": 1, "all": 0}
REFERENCE = "mom"
_NOBODY = np.empty(0, dtype=np.int64)

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class PaperSize:
    """The size of a data set of the paper.

    paper_seconds: the paper's Table 2, by method; one that did not finish is left out.
    """

    name: str
    title: str
    n_users: int
    n_items: int
    n_pairs: int
    paper_seconds: Mapping[str, float]


SIZES = {
    size.name: size
    for size in (
        PaperSize(
            "tafeng", "Ta-Feng", 24_304, 21_533, 417_246,
            {"mom": 120, "wrmf": 2_200, "bpr": 108, "plsi": 1_081},
        ),
        PaperSize(
            "million-song", "Million Song", 110_000, 163_206, 1_450_933,
            {"mom": 600, "wrmf": 14_262, "bpr": 510, "plsi": 3_036},
        ),
        PaperSize(
            "yandex", "Yandex", 1_000_000, 718_675, 5_669_541,
            {"mom": 2_512, "bpr": 2_100, "plsi": 15_300},
        ),
    )
}  # fmt: skip


def run_paper(
    sizes: Sequence[PaperSize] = tuple(SIZES.values()),
    methods: Sequence[str] = tuple(paper_methods.METHODS),
    threads: Sequence[str] = tuple(THREADS),
    *,
    n_components: int = N_COMPONENTS,
    time_budget: float = TIME_BUDGET,
    seed: int = 0,
    progress: Progress = lambda text, share: None,
) -> dict[str, Any]:
    """Fit every method at every size, each alone in a process of its own.

    Simulated data, written once per size; reading them is not counted. time_budget: seconds of
    a process, 0 for no limit. Returns a row per size, method and mode of threads: `seconds`,
    `to_mom` (the ratio to MoM in the same mode) and `peak_bytes` are None where `failure` says
    why there are none.
    """
    found = []
    runs_per_size = len(methods) * len(threads)
    for n_done, size in enumerate(sizes):
        with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
            run = _SizeRun(size, Path(folder), n_components, time_budget, seed)

            def tell(text: str, n_runs: int, before: int = n_done * runs_per_size) -> None:
                progress(text, (before + n_runs) / (len(sizes) * runs_per_size))

            found.append(run.result(methods, threads, tell))
    return {
        "n_components": n_components,
        "seed": seed,
        "time_budget": time_budget,
        **surroundings(),
        "sizes": found,
    }


@dataclass(frozen=True)
class _SizeRun:
    """All methods on data of one size, which lie in a folder."""

    size: PaperSize
    folder: Path
    n_components: int
    time_budget: float
    seed: int

    def result(
        self, methods: Sequence[str], threads: Sequence[str], tell: Callable[[str, int], None]
    ) -> dict[str, Any]:
        """Write the data, then run one method after another."""
        tell(f"{self.size.title}: data", 0)
        shape = self._write_data()
        rows: list[dict[str, Any]] = []
        for mode, method in product(threads, methods):
            title = paper_methods.METHODS[method].title
            tell(f"{self.size.title}: {title}, {mode}", len(rows))
            rows.append(self._row(method, mode, self._answer(method, mode)))
        return {"name": self.size.name, "title": self.size.title, **shape, "rows": _compared(rows)}

    def _write_data(self) -> dict[str, int]:
        size, rng = self.size, np.random.default_rng(self.seed)
        X = clustered_interactions(size.n_users, size.n_items, size.n_pairs, rng)
        write_data(self.folder, X, _NOBODY)
        return {"n_users": X.shape[0], "n_items": X.shape[1], "n_pairs": int(X.nnz)}

    def _answer(self, method: str, mode: str) -> Answer:
        task = Task(
            registry=paper_methods.__name__,
            method=method,
            settings=({"n_components": self.n_components},),
            seed=self.seed,
            length=1,
            exclude_seen=True,
        )
        budget = Budget(self.time_budget, threads=THREADS[mode])
        (answer,) = run_task(self.folder, self.folder / f"{method}-{mode}", task, budget)
        return answer

    def _row(self, method: str, mode: str, answer: Answer) -> dict[str, Any]:
        paper = self.size.paper_seconds
        seconds = paper.get(method)
        return {
            "method": method,
            "title": paper_methods.METHODS[method].title,
            "threads": mode,
            "failure": answer.failure,
            "seconds": None if answer.failure else answer.fit_seconds,
            "peak_bytes": None if answer.failure else answer.peak_bytes,
            "notes": answer.notes,
            "paper_seconds": seconds,
            "paper_to_mom": _ratio(seconds, paper.get(REFERENCE)),
        }


def _compared(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to every row its seconds as a multiple of MoM's in the same mode."""
    mom = {row["threads"]: row["seconds"] for row in rows if row["method"] == REFERENCE}
    return [row | {"to_mom": _ratio(row["seconds"], mom.get(row["threads"]))} for row in rows]


def _ratio(seconds: float | None, reference: float | None) -> float | None:
    return None if seconds is None or not reference else seconds / reference
