"""How the error of O falls with the number of users, for each estimator."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.moments.sums import EstimatorName
from mom_pipeline.core.types import Array, Csr

SIZES = (5_000, 20_000, 80_000, 320_000)
# (estimator, whether repeat counts are kept)
VARIANTS: tuple[tuple[EstimatorName, bool], ...] = (
    ("paper", False),
    ("paper", True),
    ("unbiased", True),
    ("unbiased", False),
)


@dataclass(frozen=True)
class RecoveryPoint:
    """One fit: mean L1 error of O's columns, largest error of pi, sum of lambda^-2."""

    estimator: str
    data: str
    n_users: int
    error: float
    weight_error: float
    weight_sum: float


def run_recovery(
    sizes: Sequence[int] = SIZES,
    *,
    n_items: int = 5_000,
    n_components: int = 8,
    items_per_user: float = 15.0,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Fit simulated users of growing number; returns the points and the log-log slopes."""
    points = []
    for done, n_users in enumerate(sizes):
        truth, counts = simulate(n_users, n_items, n_components, items_per_user, seed)
        binary = sparse.csr_array(counts.astype(bool).astype(np.float64))
        for estimator, keep_counts in VARIANTS:
            X: Csr = counts if keep_counts else binary
            model = MethodOfMoments(
                n_components, estimator, ranking="classes", projection="simplex", seed=seed
            ).fit(X)
            errors, order = matched_columns(model.item_probs, truth.item_probs)
            points.append(
                RecoveryPoint(
                    estimator,
                    "counts" if keep_counts else "binary",
                    n_users,
                    float(errors.mean()),
                    float(np.abs(model.weights - truth.weights[order]).max()),
                    float(model.diagnostics["weight_sum"]),
                )
            )
        progress((done + 1) / len(sizes))
    return {
        "n_items": n_items,
        "n_components": n_components,
        "items_per_user": items_per_user,
        "seed": seed,
        "points": [asdict(point) for point in points],
        "slopes": {
            f"{estimator}, {'counts' if keep else 'binary'}": _slope(points, estimator, keep)
            for estimator, keep in VARIANTS
        },
    }


def matched_columns(item_probs: Array, truth: Array) -> tuple[Array, Array]:
    """Return the L1 distance of each found column to its true one, and which one that is.

    item_probs: (D, K found), truth: (D, K).
    """
    distances = np.stack(
        [np.abs(item_probs - truth[:, [k]]).sum(axis=0) for k in range(truth.shape[1])], axis=1
    )
    found, true = optimize.linear_sum_assignment(distances)
    return distances[found, true], true


def plot_recovery(result: dict[str, Any], path: Path) -> None:
    """Draw error against users, both on log axes, with a 1/sqrt(N) line for the eye."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    colours = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00")  # safe for colour-blind readers
    markers = ("o", "s", "^", "v")
    for (label, slope), colour, marker in zip(
        result["slopes"].items(), colours, markers, strict=True
    ):
        line = [p for p in result["points"] if f"{p['estimator']}, {p['data']}" == label]
        users = [p["n_users"] for p in line]
        axes.loglog(
            users,
            [p["error"] for p in line],
            marker=marker,
            color=colour,
            label=label if slope is None else f"{label} (slope {slope:+.2f})",
        )
        if label == "unbiased, counts":
            guide = line[0]["error"] * np.sqrt(users[0] / np.array(users))
            axes.loglog(users, guide, ":", color="grey", label="1/√N")
    axes.set_xlabel("users N")
    axes.set_ylabel("mean L1 error of a column of O")
    axes.set_title(f"K = {result['n_components']}, D = {result['n_items']}, simulated")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _slope(points: list[RecoveryPoint], estimator: str, keep_counts: bool) -> float | None:
    """Return the least-squares slope of log error over log users; None for a single size."""
    data = "counts" if keep_counts else "binary"
    line = [p for p in points if p.estimator == estimator and p.data == data]
    if len(line) < 2:
        return None
    x, y = np.log([p.n_users for p in line]), np.log([p.error for p in line])
    return float(np.polyfit(x, y, 1)[0])
