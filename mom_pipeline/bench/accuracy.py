"""Accuracy: O against a known truth and the best possible, likelihood, the Gowalla split."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.day_gate import read_log
from mom_pipeline.bench.measure import timed
from mom_pipeline.comparison.methods.plsi import expectation_maximisation
from mom_pipeline.comparison.run import Options, Progress, no_progress, run_comparison
from mom_pipeline.comparison.split import split_of_files
from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.algorithm.decomposition import match_columns
from mom_pipeline.core.groups.refine import Refined, refine
from mom_pipeline.core.interactions import as_binary, rows_of_entries, with_entries
from mom_pipeline.core.moments.sums import column_sums, users_per_item
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.simulation import LatentClasses, draw_classes, draw_interactions
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.pictures import Lines, xy_curves

USERS = (5_000, 20_000, 80_000, 320_000)
PAPER, UNBIASED = "paper, binary", "unbiased, counts"
# Estimator, and whether repeat counts are kept.
_VARIANTS = (PAPER, "paper, counts", UNBIASED, "unbiased, binary")
_HOW: dict[str, Any] = {"ranking": "components", "rows": "counts", "projection": "simplex"}
_ITEMS_PER_USER = 15.0
_CUTOFF = 20
Point = dict[str, Any]
# EM as the simulated users are: of one class each.
CLASSES = Personalization("product", smoothing=0.05)
# Of EM from the truth: it has long arrived then.
_STEPS_FROM_TRUTH = 30
_LOGS = ("movietweetings", "30music", "online-retail")
_FOLDED_IN = Personalization("em", em_steps=20, smoothing=0.05)
_SOME = {"item users": 5, "user items": 3}


def run_recovery(
    scale: float = 1.0,
    folder: Path | None = None,
    *,
    users: Sequence[int] = USERS,
    n_items: int = 5_000,
    n_components: int = 8,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Fit simulated users of growing number; returns the points and the log-log slopes.

    folder: of the logs, for held-out likelihoods.
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


def refined(X: Csr, item_probs: Array, weights: Array, **how: Any) -> Refined:
    """Steps of EM on users of one class each."""
    return refine(UsersInMemory(X), item_probs, weights, CLASSES, "counts", **how)


def from_truth(X: Csr, truth: LatentClasses) -> Refined:
    """EM begun at the truth: what nobody who does not know it can be better than."""
    return refined(X, truth.item_probs, truth.weights, n_steps=_STEPS_FROM_TRUTH)


def cramer_rao(truth: LatentClasses, X: Csr) -> float:
    """Return N times the least mean square error of O's columns of any unbiased estimate.

        sum_yk (T (T.T I T)^-1 T.T)_yk O_yk / K,     I = E[s s.T],
        s_yk = P[k | u] x_uy / O_yk^(1/2),   s_k = P[k | u] / pi_k^(1/2)

    I: the information of (O, pi) in units of their roots, by simulation over the users of X.
    T: an orthonormal basis of what keeps every distribution's sum.
    """
    O, pi = truth.item_probs, truth.weights
    (D, K), N = O.shape, X.shape[0]
    P = memberships(X, O, pi, Personalization("product"))
    information = np.zeros((D * K + K, D * K + K))
    for start in range(0, N, 4096):
        own = slice(start, start + 4096)
        events = X[own].toarray()[:, None, :] * (P[own][:, :, None] / np.sqrt(O.T))
        scores = np.hstack([events.reshape(-1, D * K), P[own] / np.sqrt(pi)])
        information += scores.T @ scores / N
    roots = [*np.sqrt(O.T), np.sqrt(pi)]
    T: Float64 = sparse.block_diag([_beside(root) for root in roots]).toarray()
    covariance = T @ np.linalg.solve(T.T @ information @ T, T.T)
    return float(np.diag(covariance)[: D * K] @ O.T.ravel() / K)


def _beside(root: Float64) -> Float64:
    """Return an orthonormal basis of what is at right angles to a vector, (n, n - 1)."""
    n = len(root)
    return np.asarray(np.linalg.qr(np.column_stack([root, np.eye(n)[:, : n - 1]]))[0][:, 1:])


def efficiency(
    *, n_users: int = 20_000, n_simulated: int = 600_000, repetitions: int = 40, seed: int = 0
) -> list[dict[str, Any]]:
    """Return the root mean square error of O by the Cramér-Rao bound, D = 200, K = 4.

    A tenth of every component is even over all items: at the border of the simplex there is no
    bound.
    """
    rng = np.random.default_rng(seed)
    drawn = draw_classes(200, 4, rng)
    truth = LatentClasses(0.9 * drawn.item_probs + 0.1 / 200, drawn.weights)

    def users(n: int) -> Csr:
        return draw_interactions(truth, 3 + rng.poisson(12, n), rng)

    least = cramer_rao(truth, users(n_simulated)) / n_users
    squares: dict[str, list[float]] = {"spectral": [], "refined": [], "EM from the truth": []}
    for _ in range(repetitions):
        X = users(n_users)
        model = MethodOfMoments(4, "unbiased", ranking="components", projection="simplex").fit(X)
        found = model.item_probs, refined(X, model.item_probs, model.weights).item_probs
        for own, O in zip(squares.values(), (*found, from_truth(X, truth).item_probs), strict=True):
            ours, true = match_columns(O, truth.item_probs)
            own.append(float(((O[:, ours] - truth.item_probs[:, true]) ** 2).sum() / 4))
    rows = []
    for name, own in squares.items():
        mean, error = np.mean(own), np.std(own) / np.sqrt(len(own))
        by_the_bound = float(np.sqrt(mean / least))
        standard_error = float(error / np.sqrt(mean * least) / 2)
        figures = {"by_the_bound": by_the_bound, "standard_error": standard_error}
        rows.append({"estimate": name, "rmse": float(np.sqrt(mean)), **figures})
    return rows


def likelihoods(
    folder: Path, *, n_components: int = 20, starts: int = 20, progress: Progress = no_progress
) -> Iterator[dict[str, Any]]:
    """Yield, of each log in FOLDER, the mean log-likelihood of hidden items of held-out users."""
    for done, log in enumerate(_LOGS):
        progress(f"likelihood, {log}", done / len(_LOGS))
        X = _matrix(folder, log)
        train, given, hidden = _held_out(X, np.random.default_rng(0))
        popularity = column_sums(train) / train.nnz
        level = partial(_level, popularity=popularity, given=given, hidden=hidden)
        model = MethodOfMoments(n_components, rows="binary", ranking="components")
        model.fit(train)  # what is loaded and made once in a process
        seconds, _ = timed(partial(model.fit, train))
        spectral = level(model.item_probs, model.weights)
        rule = Personalization.from_settings(model)
        more, own = timed(
            lambda: refine(UsersInMemory(train), model.item_probs, model.weights, rule, "binary")  # noqa: B023
        )
        plsi = [
            timed(partial(expectation_maximisation, train, n_components, np.random.default_rng(s)))
            for s in range(starts)
        ]
        levels = [level(fit.item_probs, fit.memberships.mean(axis=0)) for _, fit in plsi]
        yield {
            "log": log,
            "held_out_users": given.shape[0],
            "popularity": float(np.log(popularity[hidden.indices] + 1e-12).mean()),
            "spectral": spectral,
            "refined": level(own.item_probs, own.weights),
            "plsi_best": max(levels),
            "plsi_mean": float(np.mean(levels)),
            "seconds": seconds + more,
            "plsi_seconds_a_start": float(np.mean([took for took, _ in plsi])),
        }


def _matrix(folder: Path, log: str) -> Csr:
    """Return who took what in a published log, (N, D), of items and users with several others."""
    events = list(read_log(folder, log).values())
    users, items = (
        np.unique(np.concatenate([getattr(day, name) for day in events]), return_inverse=True)[1]
        for name in ("users", "items")
    )
    X = sparse.coo_array((np.ones(len(users)), (users, items))).tocsr()
    X = as_binary(sparse.csr_array(X[:, np.flatnonzero(users_per_item(X) >= _SOME["item users"])]))
    return sparse.csr_array(X[np.flatnonzero(np.diff(X.indptr) >= _SOME["user items"])])


def _held_out(X: Csr, rng: np.random.Generator) -> tuple[Csr, Csr, Csr]:
    """Return the rows of four fifths of the users, and random halves of those of the others."""
    held = (rng.random(X.shape[0]) < 0.2) & (np.diff(X.indptr) > 3)
    others = sparse.csr_array(X[held])
    users = rows_of_entries(others)
    place = np.empty(others.nnz, dtype=np.int64)
    place[np.lexsort((rng.random(others.nnz), users))] = np.arange(others.nnz)
    given = place - others.indptr[users] < np.diff(others.indptr)[users] // 2
    one, other = with_entries(others, given), with_entries(others, ~given)
    return sparse.csr_array(X[~held]), one, other


def _level(
    item_probs: Array, weights: Array, *, popularity: Float64, given: Csr, hidden: Csr
) -> float:
    """Return the mean of log P[item | what was given] over hidden items, folded in alike."""
    O = smoothed(item_probs.astype(np.float64), popularity, _FOLDED_IN.smoothing)
    P = memberships(given, O, np.asarray(weights, dtype=np.float64), _FOLDED_IN)
    p = np.einsum("ek,ek->e", P[rows_of_entries(hidden)], O[hidden.indices])
    return float(np.log(p).mean())


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
