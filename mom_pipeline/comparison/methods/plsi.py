"""Probabilistic latent semantic indexing by EM (Hofmann, 1999), as the paper runs it."""

import numpy as np

from mom_pipeline.comparison.methods.interface import Fitted, Method, Setting, Settings
from mom_pipeline.comparison.methods.options import filled, in_range, weighted, whole
from mom_pipeline.comparison.methods.plsi_em import expectation_maximisation, has_converged
from mom_pipeline.core.interactions import require_events
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.types import Array, Csr

DEFAULTS: dict[str, Setting] = {
    "n_components": 100,
    "temperature": 1.0,
    "tol": 0.001,
    "max_iterations": 500,
    "em_steps": 20,
    "smoothing": 0.01,
    "values": "counts",
}


def fit_plsi(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Fit P[y | u] = sum_k P[y | k] P[k | u] to the counts, and score by it.

    A history is folded in by `em_steps` steps of EM with P[y | k] fixed, for users of the fit
    and new ones alike. `smoothing` is the share of popularity in P[y | k] meanwhile.
    X: (N, D).
    """
    chosen = filled(settings, DEFAULTS)
    require_events(X)
    counts = weighted(X, chosen["values"])
    fit = expectation_maximisation(
        counts,
        whole("n_components", chosen["n_components"]),
        np.random.default_rng(seed),
        temperature=in_range("temperature", chosen["temperature"], 0, above=True),
        tol=in_range("tol", chosen["tol"], 0),
        max_iterations=whole("max_iterations", chosen["max_iterations"]),
    )
    item_events = np.asarray(counts.sum(axis=0)).ravel()
    events = np.asarray(counts.sum(axis=1)).ravel()
    pi = events @ fit.memberships / events.sum()
    rule = Personalization(
        "em",
        em_steps=whole("em_steps", chosen["em_steps"]),
        smoothing=in_range("smoothing", chosen["smoothing"], 0, above=True),
    )
    O = fit.item_probs
    positive = smoothed(O, item_events / item_events.sum(), rule.smoothing)

    def scores(rows: Csr) -> Array:
        theta = memberships(weighted(rows, chosen["values"]), positive, pi, rule)
        return np.asarray(theta @ O.T)

    notes = {
        "iterations": fit.iterations,
        "log_likelihood": fit.log_likelihoods[-1],
        "converged": has_converged(fit.log_likelihoods, float(chosen["tol"])),
    }
    return Fitted(scores, notes)


# The paper's standard form first; then fewer steps of folding in, and Hofmann's own remedy
# against fitting the users too closely.
PLSI = Method(
    "plsi",
    "PLSI",
    fit_plsi,
    (
        {"temperature": 1.0, "em_steps": 20},
        {"temperature": 1.0, "em_steps": 1},
        {"temperature": 0.9, "em_steps": 1},
        {"temperature": 0.85, "em_steps": 1},
        {"temperature": 0.8, "em_steps": 1},
        {"temperature": 0.85, "em_steps": 1, "values": "log"},
        {"temperature": 0.9, "em_steps": 1, "values": "binary"},
        {"temperature": 0.85, "em_steps": 1, "values": "binary"},
    ),
)
