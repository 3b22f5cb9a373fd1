"""Benchmark of the paper's Table 2: seconds and memory of the methods at the paper's sizes."""

import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import timed
from mom_pipeline.comparison.fitting import FitAnswer, Task, run_task, write_data
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.methods.interface import Fitted, Method
from mom_pipeline.comparison.methods.plsi import PLSI
from mom_pipeline.comparison.methods.rivals import fit_bpr, fit_wrmf
from mom_pipeline.comparison.results import DataDescription
from mom_pipeline.comparison.run import Progress, no_progress, within
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.threads import available_cores
from mom_pipeline.core.types import Csr

N_COMPONENTS = 100
TIME_BUDGET = 3600.0
# Name of a mode to the cores of a process; 0: all.
THREADS = {"one": 1, "all": 0}


@dataclass(frozen=True)
class PaperSize:
    """A row of the paper's Table 1, with its Table 2; see `paper.toml`."""

    title: str
    kind: str
    n_users: int
    n_items: int
    n_pairs: int
    n_test_pairs: int
    sparsity: float
    seconds: Mapping[str, float]

    def shrunk(self, by: int) -> Self:
        """Return a size of so many times fewer users, items and tuples, as dense per user."""
        names = ("n_users", "n_items", "n_pairs", "n_test_pairs")
        return replace(self, **{name: max(1, getattr(self, name) // by) for name in names})

    def description(self, name: str) -> DataDescription:
        """Return the row of Table 1 under another name."""
        sizes = self.n_users, self.n_items, self.n_pairs, self.n_test_pairs
        return DataDescription(name, *sizes, self.kind)


# What the paper says.
STATED = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
SIZES = {name: PaperSize(**size) for name, size in STATED["sizes"].items()}


def _mom(X: Csr, seed: int, *, n_components: int) -> Fitted:
    """Fit the components and everybody's memberships: the rivals' fits end with such factors."""
    model = MethodOfMoments(n_components, ranking="components", seed=seed).fit(X)
    seconds, _ = timed(lambda: model.personalize(X))
    stages = model.diagnostics["seconds"] | {"personalization": seconds}
    notes = {"stages": stages, "whitening_passes": model.diagnostics["passes"]}
    return Fitted(lambda users: model.fitted.scores(X[users]), notes)


# All threads of BPR: here the time counts, not the same result again.
_bpr = partial(fit_bpr, iterations=100, num_threads=available_cores())
# In the order of the paper's table; PLSI runs to the paper's stopping rule.
METHODS = {
    "mom": Method("mom", "MoM", _mom, size="n_components"),
    "wrmf": Method("wrmf", "WRMF", partial(fit_wrmf, iterations=15), size="factors"),
    "bpr": Method("bpr", "BPR", _bpr, size="factors"),
    "plsi": PLSI,
}


def run_paper(
    sizes: Sequence[str | PaperSize] = tuple(SIZES),
    methods: Sequence[str] = tuple(METHODS),
    threads: str = "both",
    *,
    n_components: int = N_COMPONENTS,
    time_budget: float = TIME_BUDGET,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Fit every method at every size on "one" or "all" cores, each in a process of its own."""
    modes = tuple(THREADS) if threads == "both" else (threads,)
    rows: list[dict[str, Any]] = []
    for number, named in enumerate(sizes):
        size = SIZES[named] if isinstance(named, str) else named
        tell = within(progress, number / len(sizes), 1 / len(sizes))
        tell(f"{size.title}: data", 0)
        rng, nobody = np.random.default_rng(0), np.empty(0, dtype=np.int64)
        X = clustered_interactions(size.n_users, size.n_items, size.n_pairs, rng)
        with tempfile.TemporaryDirectory(prefix="mom-bench-") as place:
            folder = Path(place)
            write_data(folder, nobody, (X, None, None))
            for position, mode in enumerate(modes):
                own: dict[str, FitAnswer] = {}
                for method in methods:
                    share = (position + len(own) / len(methods)) / len(modes)
                    tell(f"{size.title}: {METHODS[method].title}, {mode}", share)
                    settings = {METHODS[method].size: n_components}
                    task = Task(__name__, method, (settings,), 0, 1, True)
                    budget = Budget(time_budget, threads=THREADS[mode])
                    (own[method],) = run_task(folder, folder / method, task, budget)
                rows += [_row(size, method, mode, own) for method in methods]
    return {"n_components": n_components, "time_budget": time_budget, "rows": rows}


def _row(size: PaperSize, method: str, mode: str, answers: dict[str, FitAnswer]) -> dict[str, Any]:
    answer, mom, theirs = answers[method], answers.get("mom"), size.seconds.get(method)
    seconds, ours = (a.fit_seconds if a and not a.failure else None for a in (answer, mom))
    return {
        "size": size.title,
        "method": method,
        "threads": mode,
        "seconds": seconds,
        "peak_gigabytes": None if answer.failure else answer.peak_bytes / 1e9,
        "paper_seconds": theirs,
        "paper_to_mom": theirs and theirs / size.seconds["mom"],
        "failure": answer.failure,
        "notes": answer.notes,
        "to_mom": seconds and ours and seconds / ours,
    }
