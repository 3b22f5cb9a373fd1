"""Accuracy: the error of O against a known truth, and ranking quality on the Gowalla split."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.measure import Progress, Table, no_progress, timed, value_table
from mom_pipeline.core import MethodOfMoments, evaluate_ranking, simulate
from mom_pipeline.core.algorithm.decomposition import match_columns
from mom_pipeline.core.model import RankingName
from mom_pipeline.core.moments.estimators import EstimatorName
from mom_pipeline.core.ranking.memberships import RuleName
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.datasets.user_lists import read_split
from mom_pipeline.pictures.charts import Lines, xy_curves
from mom_pipeline.pictures.png import png

SIZES = (5_000, 20_000, 80_000, 320_000)
_ITEMS_PER_USER = 15.0
# (estimator, whether repeat counts are kept)
VARIANTS: tuple[tuple[EstimatorName, bool], ...] = (
    ("paper", False),
    ("paper", True),
    ("unbiased", True),
    ("unbiased", False),
)


@dataclass(frozen=True)
class RecoveryPoint:
    """One fit: mean L1 error of O's columns, largest error of pi, sum of lambda^-2.

    bound: Theorem 1's of a column of O; None for an estimator that it is not about.
    """

    estimator: str
    data: str
    n_users: int
    error: float
    weight_error: float
    weight_sum: float
    bound: float | None


def run_recovery(
    max_users: int = SIZES[-1],
    *,
    sizes: Sequence[int] = SIZES,
    n_items: int = 5_000,
    n_components: int = 8,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Fit simulated users of growing number; returns the points and the log-log slopes."""
    sizes = [size for size in sizes if size <= max_users] or [max_users]
    points = []
    for done, n_users in enumerate(sizes):
        truth, counts = simulate(n_users, n_items, n_components, _ITEMS_PER_USER, seed)
        for estimator, keep_counts in VARIANTS:
            X = counts if keep_counts else sparse.csr_array(counts.astype(bool).astype(np.float64))
            point = _point(X, estimator, truth.item_probs, truth.weights, seed)
            points.append(replace(point, data="counts" if keep_counts else "binary"))
        progress("recovery", (done + 1) / len(sizes))
    return {
        "n_items": n_items,
        "n_components": n_components,
        "items_per_user": _ITEMS_PER_USER,
        "seed": seed,
        "points": [asdict(point) for point in points],
        "slopes": {
            f"{estimator}, {'counts' if keep else 'binary'}": _slope(points, estimator, keep)
            for estimator, keep in VARIANTS
        },
    }


def _point(
    X: Csr, estimator: EstimatorName, true_probs: Array, true_weights: Array, seed: int
) -> RecoveryPoint:
    K = len(true_weights)
    model = MethodOfMoments(
        K, estimator, ranking="components", rows="counts", projection="simplex", seed=seed
    ).fit(X)
    errors, order = matched_columns(model.item_probs, true_probs)
    bounds = model.diagnostics["bounds"]
    return RecoveryPoint(
        estimator,
        "",
        X.shape[0],
        float(errors.mean()),
        float(np.abs(model.weights - true_weights[order]).max()),
        float(model.diagnostics["weight_sum"]),
        None if bounds is None else float(bounds["mu_bound"]),
    )


def matched_columns(item_probs: Array, truth: Array) -> tuple[Array, Array]:
    """Return the L1 distance of each fitted column to its true one, and which one that is.

    item_probs: (D, K fitted), truth: (D, K).
    """
    fitted, true = match_columns(item_probs, truth)
    return np.abs(item_probs[:, fitted] - truth[:, true]).sum(axis=0), true


def tables_recovery(result: dict[str, Any]) -> list[Table]:
    """A row per estimator, a column per number of users."""
    rows = []
    for label, slope in result["slopes"].items():
        points = _line(result, label)
        row = {"mean L1 error of O": label}
        row |= {f"{p['n_users']:,} users": f"{p['error']:.3f}" for p in points}
        row |= {"slope": "–" if slope is None else f"{slope:+.2f}"}
        rows.append(row | {"Σλ⁻²": f"{points[-1]['weight_sum']:.3f}"})
    K, D = result["n_components"], result["n_items"]
    return [Table(f"Recovery of known components (K = {K}, D = {D:,})", rows)]


def plot_recovery(result: dict[str, Any]) -> bytes:
    """Draw `recovery_chart` to a PNG file."""
    return png(recovery_chart(result))


def recovery_chart(result: dict[str, Any]) -> Lines:
    """Error against users, both on log axes, with a 1/sqrt(N) line for the eye."""
    series: dict[str, tuple[list[float], list[float]]] = {}
    for label, slope in result["slopes"].items():
        line = _line(result, label)
        name = label if slope is None else f"{label} (slope {slope:+.2f})"
        series[name] = [p["n_users"] for p in line], [p["error"] for p in line]
    line = _line(result, "unbiased, counts")
    users = [p["n_users"] for p in line]
    series["1/√N"] = users, [line[0]["error"] * np.sqrt(users[0] / n) for n in users]
    title = f"K = {result['n_components']}, D = {result['n_items']}, simulated"
    return xy_curves(series, title=title, x="users N", y="mean L1 error of O", log=True)


def _line(result: dict[str, Any], label: str) -> list[dict[str, Any]]:
    return [p for p in result["points"] if f"{p['estimator']}, {p['data']}" == label]


def _slope(points: list[RecoveryPoint], estimator: str, keep_counts: bool) -> float | None:
    """Return the least-squares slope of log error over log users; None for a single size."""
    data = "counts" if keep_counts else "binary"
    line = [p for p in points if p.estimator == estimator and p.data == data]
    if len(line) < 2:
        return None
    x, y = np.log([p.n_users for p in line]), np.log([p.error for p in line])
    return float(np.polyfit(x, y, 1)[0])


GOWALLA_CUTOFF = 20
# (label, estimator, rule, ranking)
GOWALLA_ROWS: tuple[tuple[str, EstimatorName, RuleName, RankingName], ...] = (
    ("paper, product rule", "paper", "product", "components"),
    ("balanced, components", "balanced", "em", "components"),
    ("balanced, three moments", "balanced", "em", "three-moment"),
)


def run_gowalla(
    folder: Path, n_components: int = 100, *, seed: int = 0, progress: Progress = no_progress
) -> dict[str, Any]:
    """Fit on train, measure once on all users of test; returns a row per method."""
    train, test = read_split(folder / "train.txt.gz", folder / "test.txt.gz")
    k, rows = GOWALLA_CUTOFF, []
    for done, (label, estimator, rule, ranking) in enumerate(GOWALLA_ROWS):
        progress(label, done / len(GOWALLA_ROWS))
        model = MethodOfMoments(n_components, estimator, rule, ranking=ranking, seed=seed)
        fit, _ = timed(partial(model.fit, train))
        lists, (ids, _) = timed(partial(model.recommend, train, n=k, ranking=ranking))
        metrics = evaluate_ranking(ids, test, [k])
        rows.append(
            {
                "method": label,
                **{name: getattr(metrics, name)[k] for name in ("recall", "ndcg", "map")},
                "users": metrics.n_users,
                "fit_seconds": fit.wall,
                "recommend_seconds": lists.wall,
                "ranking_weights": model.diagnostics["ranking_weights"],
                "negative_mass": model.diagnostics["negative_mass"],
            }
        )
    return {"n_components": n_components, "cutoff": k, "seed": seed, "rows": rows}


def tables_gowalla(result: dict[str, Any]) -> list[Table]:
    """The metrics, and the weights that were chosen."""
    rows = [
        {
            "method": row["method"],
            "Recall@20": f"{row['recall']:.4f}",
            "nDCG@20": f"{row['ndcg']:.4f}",
            "MAP@20": f"{row['map']:.4f}",
            "fit, s": f"{row['fit_seconds']:.1f}",
            "top 20 for all, s": f"{row['recommend_seconds']:.1f}",
        }
        for row in result["rows"]
    ]
    weights = result["rows"][-1]["ranking_weights"]
    return [
        Table(f"Gowalla, {result['rows'][0]['users']:,} test users", rows),
        value_table("Ranking weights, chosen on a held-out part of train", weights),
    ]
