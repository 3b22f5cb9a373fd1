"""Benchmark of the paper's Table 2: seconds and memory of the methods at the paper's sizes."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import Progress, no_progress, within
from mom_pipeline.comparison.fitting import FitAnswer, Task, run_task, write_data
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.methods.interface import Fitted, Method
from mom_pipeline.comparison.methods.plsi import expectation_maximisation
from mom_pipeline.comparison.methods.rivals import fit_wrmf, trained_bpr
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.threads import available_cores
from mom_pipeline.core.types import Array, Csr

N_COMPONENTS = 100
TIME_BUDGET = 3600.0
# Name of a mode to the cores of a process; 0: all.
THREADS = {"one": 1, "all": 0}


@dataclass(frozen=True)
class PaperSize:
    """A row of the paper's Table 1, with its Table 2: seconds by method, where it finished.

    n_pairs, n_test_pairs: tuples of the training and of the test data.
    sparsity: as printed; the share of cells of the training data that are not empty.
    """

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


SIZES = {
    "tafeng": PaperSize(
        *("Ta-Feng", "Online Grocery", 24_304, 21_533, 417_246, 274_479, 5.44e-4),
        {"mom": 120, "wrmf": 2_200, "bpr": 108, "plsi": 1_081},
    ),
    "million-song": PaperSize(
        *("Million Song", "Music Subscription", 110_000, 163_206, 1_450_933, 1_368_430, 8.08e-5),
        {"mom": 600, "wrmf": 14_262, "bpr": 510, "plsi": 3_036},
    ),
    "yandex": PaperSize(
        *("Yandex", "Search Engine logs", 1_000_000, 718_675, 5_669_541, 3_516_216, 7.89e-6),
        {"mom": 2_512, "bpr": 2_100, "plsi": 15_300},
    ),
}


def _mom(X: Csr, seed: int, n_components: int) -> Fitted:
    """Fit the components and everybody's memberships: the rivals' fits end with such factors."""
    model = MethodOfMoments(n_components, ranking="components", seed=seed).fit(X)
    begin = time.perf_counter()
    model.personalize(X)
    stages = model.diagnostics["seconds"] | {"personalization": time.perf_counter() - begin}
    return Fitted(_no_scores, {"stages": stages, "whitening_passes": model.diagnostics["passes"]})


def _wrmf(X: Csr, seed: int, n_components: int) -> Fitted:
    fit_wrmf(X, seed, factors=n_components, iterations=15)
    return Fitted(_no_scores)


def _bpr(X: Csr, seed: int, n_components: int) -> Fitted:
    """All threads: here the time counts, not the same result again."""
    trained_bpr(X, seed, factors=n_components, iterations=100, n_threads=available_cores())
    return Fitted(_no_scores)


def _plsi(X: Csr, seed: int, n_components: int) -> Fitted:
    """Run EM until L_t - L_{t-1} < 0.001 |L_{t-1}| (paper, section 4)."""
    fit = expectation_maximisation(X, n_components, np.random.default_rng(seed), tol=0.001)
    return Fitted(_no_scores, {"iterations": len(fit.log_likelihoods) - 1})


def _no_scores(rows: Csr) -> Array:
    raise NotImplementedError("only the fit is measured; there are no scores")


# In the order of the paper's table.
METHODS: dict[str, Method] = {
    "mom": Method("mom", "MoM", _mom),
    "wrmf": Method("wrmf", "WRMF", _wrmf),
    "bpr": Method("bpr", "BPR", _bpr),
    "plsi": Method("plsi", "PLSI", _plsi),
}


def run_paper(
    sizes: Sequence[str | PaperSize] = tuple(SIZES),
    methods: Sequence[str] = tuple(METHODS),
    threads: str = "both",
    *,
    n_components: int = N_COMPONENTS,
    time_budget: float = TIME_BUDGET,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Fit every method at every size, each alone in a process of its own.

    sizes: names of `SIZES`, or sizes of one's own.  threads: "one" or "all" cores, or "both".
    Simulated data; reading them is not counted.  time_budget: seconds of a process, 0 for no
    limit.  Returns a row per size, mode of threads and method, with its ratio to MoM in the same
    mode; numbers are None where `failure` says why.
    """
    modes = tuple(THREADS) if threads == "both" else (threads,)
    rows: list[dict[str, Any]] = []
    for number, named in enumerate(sizes):
        size = SIZES[named] if isinstance(named, str) else named
        tell = within(progress, number / len(sizes), 1 / len(sizes))
        tell(f"{size.title}: data", 0)
        rng, nobody = np.random.default_rng(seed), np.empty(0, dtype=np.int64)
        X = clustered_interactions(size.n_users, size.n_items, size.n_pairs, rng)
        with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
            write_data(Path(folder), nobody, train=X)
            for position, mode in enumerate(modes):
                own = []
                for done, method in enumerate(methods):
                    share = (position + done / len(methods)) / len(modes)
                    tell(f"{size.title}: {METHODS[method].title}, {mode}", share)
                    task = Task(__name__, method, ({"n_components": n_components},), seed, 1, True)
                    budget = Budget(time_budget, threads=THREADS[mode])
                    (answer,) = run_task(Path(folder), Path(folder) / method, task, budget)
                    own.append(_row(size, method, mode, answer))
                mom = next((row["seconds"] for row in own if row["method"] == "mom"), None)
                rows += [row | {"to_mom": _ratio(row["seconds"], mom)} for row in own]
    return {"n_components": n_components, "time_budget": time_budget, "rows": rows}


def _row(size: PaperSize, method: str, mode: str, answer: FitAnswer) -> dict[str, Any]:
    failed = bool(answer.failure)
    return {
        "size": size.title,
        "method": method,
        "threads": mode,
        "seconds": None if failed else answer.fit_seconds,
        "peak_gigabytes": None if failed else answer.peak_bytes / 1e9,
        "paper_seconds": size.seconds.get(method),
        "paper_to_mom": _ratio(size.seconds.get(method), size.seconds["mom"]),
        "failure": answer.failure,
        "notes": answer.notes,
    }


def _ratio(seconds: float | None, reference: float | None) -> float | None:
    return None if seconds is None or reference is None else seconds / reference
