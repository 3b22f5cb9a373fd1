"""Benchmark of the paper's Table 2: seconds and memory of the methods at the paper's sizes."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import Progress, Table, no_progress
from mom_pipeline.comparison.fitting import Answer, Task, run_task, write_data
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.methods.bpr import trained_bpr
from mom_pipeline.comparison.methods.interface import Fitted, Method, Settings
from mom_pipeline.comparison.methods.plsi import expectation_maximisation
from mom_pipeline.comparison.methods.wrmf import fit_wrmf
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.threads import available_cores
from mom_pipeline.core.types import Array, Csr

N_COMPONENTS = 100
TIME_BUDGET = 3600.0
# Name of a mode to the cores of a process; 0: all.
THREADS = {"one": 1, "all": 0}
REFERENCE = "mom"
_PAPER_TOLERANCE = 0.001
_MISSING = "–"
_NOBODY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class PaperSize:
    """The size of a data set of the paper, as its Table 1 has it.

    n_pairs, n_test_pairs: tuples of the training and of the test data.
    sparsity: as printed; the share of cells of the training data that are not empty.
    paper_seconds: the paper's Table 2, by method; one that did not finish is left out.
    """

    name: str
    title: str
    n_users: int
    n_items: int
    n_pairs: int
    paper_seconds: Mapping[str, float]
    kind: str = ""
    n_test_pairs: int = 0
    sparsity: float = 0.0

    def shrunk(self, by: int) -> Self:
        """Return a size of so many times fewer users, items and tuples, as dense per user."""
        fewer = {
            name: max(1, getattr(self, name) // by)
            for name in ("n_users", "n_items", "n_pairs", "n_test_pairs")
        }
        return replace(self, **fewer)


_ALL_SIZES = (
    PaperSize(
        "tafeng",
        "Ta-Feng",
        n_users=24_304,
        n_items=21_533,
        n_pairs=417_246,
        paper_seconds={"mom": 120, "wrmf": 2_200, "bpr": 108, "plsi": 1_081},
        kind="Online Grocery",
        n_test_pairs=274_479,
        sparsity=5.44e-4,
    ),
    PaperSize(
        "million-song",
        "Million Song",
        n_users=110_000,
        n_items=163_206,
        n_pairs=1_450_933,
        paper_seconds={"mom": 600, "wrmf": 14_262, "bpr": 510, "plsi": 3_036},
        kind="Music Subscription",
        n_test_pairs=1_368_430,
        sparsity=8.08e-5,
    ),
    PaperSize(
        "yandex",
        "Yandex",
        n_users=1_000_000,
        n_items=718_675,
        n_pairs=5_669_541,
        paper_seconds={"mom": 2_512, "bpr": 2_100, "plsi": 15_300},
        kind="Search Engine logs",
        n_test_pairs=3_516_216,
        sparsity=7.89e-6,
    ),
)
SIZES = {size.name: size for size in _ALL_SIZES}


def fit_mom(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Fit the components and everybody's memberships; notes the seconds of each stage.

    The rivals' fits end with factors of all users, so the personalization counts here.
    """
    model = MethodOfMoments(_size(settings), ranking="components", seed=seed).fit(X)
    begin = time.perf_counter()
    model.personalize(X)
    personalization = {"personalization": time.perf_counter() - begin}
    fit = model.diagnostics
    return _without_scores(stages=fit["seconds"] | personalization, whitening_passes=fit["passes"])


def fit_wrmf_as_paper(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Run 15 iterations of `implicit`'s alternating least squares."""
    fit_wrmf(X, {"factors": _size(settings), "iterations": 15}, seed)
    return _without_scores()


def fit_bpr_as_paper(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Run 100 iterations on all threads: here the time counts, not the same result again."""
    chosen = {"factors": _size(settings), "iterations": 100}
    trained_bpr(X, chosen, seed, n_threads=available_cores())
    return _without_scores()


def fit_plsi_as_paper(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Run EM until L_t - L_{t-1} < 0.001 |L_{t-1}| (paper, section 4)."""
    rng = np.random.default_rng(seed)
    fit = expectation_maximisation(X, _size(settings), rng, tol=_PAPER_TOLERANCE)
    return _without_scores(iterations=fit.iterations)


def _size(settings: Settings) -> int:
    return int(settings["n_components"])


def _without_scores(**notes: Any) -> Fitted:
    def scores(rows: Csr) -> Array:
        raise NotImplementedError("only the fit is measured; there are no scores")

    return Fitted(scores, notes)


# In the order of the paper's table.
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("mom", "MoM", fit_mom),
        Method("wrmf", "WRMF", fit_wrmf_as_paper),
        Method("bpr", "BPR", fit_bpr_as_paper),
        Method("plsi", "PLSI", fit_plsi_as_paper),
    )
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

    sizes: names of `SIZES`, or sizes of one's own.
    threads: "one" or "all" cores, or "both" one after the other.
    Simulated data, written once per size; reading them is not counted. time_budget: seconds of
    a process, 0 for no limit. Returns a row per size, method and mode of threads: `seconds`,
    `to_mom` (the ratio to MoM in the same mode) and `peak_bytes` are None where `failure` says
    why there are none.
    """
    modes = tuple(THREADS) if threads == "both" else (threads,)
    runs = list(product(modes, methods))
    results = []
    for done, named in enumerate(sizes):
        size = SIZES[named] if isinstance(named, str) else named

        def tell(text: str, share: float, before: int = done) -> None:
            progress(text, (before + share) / len(sizes))

        with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
            fit = _Fit(Path(folder), n_components, time_budget, seed)
            results.append(_size_result(size, fit, runs, tell))
    return {
        "n_components": n_components,
        "seed": seed,
        "time_budget": time_budget,
        "sizes": results,
        "remarks": [
            f"{row['title']}, threads {row['threads']}: {row['failure']}"
            for result in results
            for row in result["rows"]
            if row["failure"]
        ],
    }


@dataclass(frozen=True)
class _Fit:
    """How a method is fitted to the data in a folder."""

    folder: Path
    n_components: int
    time_budget: float
    seed: int

    def answer(self, method: str, mode: str) -> Answer:
        settings = ({"n_components": self.n_components},)
        task = Task(__name__, method, settings, self.seed, length=1, exclude_seen=True)
        budget = Budget(self.time_budget, threads=THREADS[mode])
        (answer,) = run_task(self.folder, self.folder / f"{method}-{mode}", task, budget)
        return answer


def _size_result(
    size: PaperSize, fit: _Fit, runs: Sequence[tuple[str, str]], tell: Progress
) -> dict[str, Any]:
    """Write the data of a size, then run one method after another."""
    tell(f"{size.title}: data", 0)
    rng = np.random.default_rng(fit.seed)
    X = clustered_interactions(size.n_users, size.n_items, size.n_pairs, rng)
    write_data(fit.folder, X, _NOBODY)
    rows: list[dict[str, Any]] = []
    for mode, method in runs:
        tell(f"{size.title}: {METHODS[method].title}, {mode}", len(rows) / len(runs))
        rows.append(_row(size, method, mode, fit.answer(method, mode)))
    mom = {row["threads"]: row["seconds"] for row in rows if row["method"] == REFERENCE}
    return {
        "name": size.name,
        "title": size.title,
        "n_users": X.shape[0],
        "n_items": X.shape[1],
        "n_pairs": int(X.nnz),
        "rows": [row | {"to_mom": _ratio(row["seconds"], mom.get(row["threads"]))} for row in rows],
    }


def _row(size: PaperSize, method: str, mode: str, answer: Answer) -> dict[str, Any]:
    seconds = size.paper_seconds.get(method)
    return {
        "method": method,
        "title": METHODS[method].title,
        "threads": mode,
        "failure": answer.failure,
        "seconds": None if answer.failure else answer.fit_seconds,
        "peak_bytes": None if answer.failure else answer.peak_bytes,
        "notes": answer.notes,
        "paper_seconds": seconds,
        "paper_to_mom": _ratio(seconds, size.paper_seconds.get(REFERENCE)),
    }


def _ratio(seconds: float | None, reference: float | None) -> float | None:
    return None if seconds is None or not reference else seconds / reference


def tables_paper(result: dict[str, Any]) -> list[Table]:
    """For each size the methods, and where the time of MoM goes."""
    tables = []
    for size in result["sizes"]:
        tables.append(_methods_table(size))
        stages = {
            row["threads"]: row["notes"]["stages"]
            for row in size["rows"]
            if "stages" in row["notes"]
        }
        rows = [
            {"stage": name}
            | {f"threads {mode}, s": f"{seconds[name]:,.2f}" for mode, seconds in stages.items()}
            for name in next(iter(stages.values()), ())
        ]
        if rows:
            tables.append(Table(f"{size['title']}: stages of MoM", rows))
    return tables


def _methods_table(size: dict[str, Any]) -> Table:
    title = (
        f"{size['title']}: {size['n_users']:,} users, {size['n_items']:,} items, "
        f"{size['n_pairs']:,} pairs"
    )
    rows = [
        {
            "method": row["title"],
            "threads": row["threads"],
            "seconds": _shown(row["seconds"], ",.1f"),
            "to MoM": _shown(row["to_mom"], ",.2f"),
            "peak, GB": _shown(row["peak_bytes"], ",.2f", unit=1e9),
            "paper, s": _shown(row["paper_seconds"], ",.0f"),
            "paper, to MoM": _shown(row["paper_to_mom"], ",.2f"),
        }
        for row in size["rows"]
    ]
    return Table(title, rows)


def _shown(value: float | None, form: str, *, unit: float = 1.0) -> str:
    return _MISSING if value is None else format(value / unit, form)
