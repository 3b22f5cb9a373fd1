"""Accuracy: the error of O against a known truth, and ranking quality on the Gowalla split."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mom_pipeline.bench.efficiency import efficiency, from_truth, likelihoods, refined
from mom_pipeline.comparison.run import Options, Progress, no_progress, run_comparison
from mom_pipeline.comparison.split import split_of_files
from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.algorithm.decomposition import match_columns
from mom_pipeline.core.files import write_bytes
from mom_pipeline.core.interactions import as_binary
from mom_pipeline.core.simulation import LatentClasses
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.pictures.charts import Lines, xy_curves
from mom_pipeline.pictures.svg import svg

USERS = (5_000, 20_000, 80_000, 320_000)
PAPER, UNBIASED = "paper, binary", "unbiased, counts"
# Estimator, and whether repeat counts are kept.
_VARIANTS = (PAPER, "paper, counts", UNBIASED, "unbiased, binary")
_HOW: dict[str, Any] = {"ranking": "components", "rows": "counts", "projection": "simplex"}
_ITEMS_PER_USER = 15.0
_CUTOFF = 20
Point = dict[str, Any]


def run_recovery(  # noqa: PLR0913 - the sizes of a study
    scale: float = 1.0,
    folder: Path | None = None,
    *,
    users: Sequence[int] = USERS,
    n_items: int = 5_000,
    n_components: int = 8,
    seed: int = 0,
    plot: Path | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Fit simulated users of growing number; returns the points and the log-log slopes.

    plot: an SVG to draw them to.  folder: of the logs, for held-out likelihoods.
    A point has the mean L1 error of O's columns, the sum of lambda^-2 and Theorem 1's bound of a
    column (None for an estimator that it is not about).
    """
    points, after_em = list[Point](), list[Point]()
    for done, n in enumerate(users):
        n_users = round(scale * n)
        truth, counts = simulate(n_users, n_items, n_components, _ITEMS_PER_USER, seed)
        for variant in _VARIANTS:
            X = counts if variant.endswith("counts") else as_binary(counts)
            estimator: Any = variant.partition(",")[0]
            model = MethodOfMoments(n_components, estimator, seed=seed, **_HOW).fit(X)
            figures, bounds = model.diagnostics, model.diagnostics["bounds"]
            points.append(
                {
                    "estimator": variant,
                    "users": n_users,
                    "error": _error(model.item_probs, truth),
                    "weight_sum": float(figures["weight_sum"]),
                    "bound": None if bounds is None else float(bounds["mu_bound"]),
                }
            )
            if variant == UNBIASED:
                after_em.append({"users": n_users, **_after_em(X, model, truth)})
        progress("recovery", (done + 1) / len(users))
    slopes = [{"estimator": v, "slope": _slope(line(points, v))} for v in _VARIANTS]
    sizes = {"n_items": n_items, "n_components": n_components}
    result = {**sizes, "points": points, "slopes": slopes, "after_em": after_em}
    if scale == 1 and users is USERS:
        result["efficiency"] = efficiency(seed=seed)
    if folder is not None:
        result["likelihood"] = list(likelihoods(folder, progress=progress))
    if plot is not None:
        write_bytes(plot, svg(recovery_chart(result)))
    return result


def _after_em(X: Csr, model: MethodOfMoments, truth: LatentClasses) -> Point:
    """Return the errors before and after EM, of EM begun at the truth, and both by the latter."""
    after, ideal = refined(X, model.item_probs, model.weights), from_truth(X, truth)
    found = {"spectral": model.item_probs, "refined": after.item_probs}
    found["from_truth"] = ideal.item_probs
    errors = {name: _error(O, truth) for name, O in found.items()}
    least = errors["from_truth"]
    return errors | {f"{n}_by_from_truth": errors[n] / least for n in ("spectral", "refined")}


def _error(item_probs: Array, truth: LatentClasses) -> float:
    """Return the mean L1 error of the columns, each with its counterpart."""
    fitted, true = match_columns(item_probs, truth.item_probs)
    return float(np.abs(item_probs[:, fitted] - truth.item_probs[:, true]).sum(axis=0).mean())


def line(points: Sequence[Point], estimator: str) -> list[Point]:
    """Return the points of an estimator, from the fewest users to the most."""
    return [point for point in points if point["estimator"] == estimator]


def _slope(points: Sequence[Point]) -> float:
    """Return the least-squares slope of log error over log users."""
    x, y = np.log([p["users"] for p in points]), np.log([p["error"] for p in points])
    return float(np.polyfit(x, y, 1)[0])


def recovery_chart(result: dict[str, Any]) -> Lines:
    """Error against users, both on log axes, with a 1/sqrt(N) line for the eye."""
    lines = {row["estimator"]: line(result["points"], row["estimator"]) for row in result["slopes"]}
    series = {
        name: ([p["users"] for p in own], [p["error"] for p in own]) for name, own in lines.items()
    }
    users, errors = series[UNBIASED]
    series["1/√N"] = users, [errors[0] * np.sqrt(users[0] / n) for n in users]
    title = f"K = {result['n_components']}, D = {result['n_items']}, simulated"
    return xy_curves(series, title=title, x="users N", y="mean L1 error of O", log=True)


def run_gowalla(
    folder: Path, *, n_components: int = 100, progress: Progress = no_progress
) -> dict[str, Any]:
    """Fit on train with default settings, measure once on all users of test; a row per method."""
    split = split_of_files(folder / "train.txt.gz", folder / "test.txt.gz")
    methods = ("mom-paper", "mom-balanced", "three-moment")
    options = Options(methods, n_components=n_components, cutoffs=(_CUTOFF,))
    with TemporaryDirectory() as scratch:
        found = run_comparison(replace(split, windows=()), options, Path(scratch), progress)
    rows = [
        {"method": r.title, **{name: mean for name, (mean,) in r.means.items()}, **r.notes}
        | {"fit_seconds": r.fit_seconds, "lists_seconds": r.predict_seconds, "failure": r.failure}
        for r in found.results
    ]
    sizes = {"n_components": n_components, "cutoff": _CUTOFF, "users": found.n_users}
    return {**sizes, "rows": rows}
