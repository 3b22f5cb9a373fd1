"""The methods of the paper's Table 2, as a worker process fits them: no more than the fit."""

import time
from typing import Any

import numpy as np

from mom_pipeline.comparison.methods.bpr import trained_bpr
from mom_pipeline.comparison.methods.interface import Fitted, Method, Settings
from mom_pipeline.comparison.methods.plsi_em import expectation_maximisation
from mom_pipeline.comparison.methods.wrmf import fit_wrmf
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.threads import available_cores
from mom_pipeline.core.types import Array, Csr

_PAPER_TOLERANCE = 0.001


def fit_mom(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Find the classes and everybody's memberships; notes the seconds of each stage.

    The rivals' fits end with factors of all users, so the personalization counts here.
    """
    model = MethodOfMoments(_size(settings), ranking="classes", seed=seed).fit(X)
    begin = time.perf_counter()
    model.personalize(X)
    personalization = {"personalization": time.perf_counter() - begin}
    found = model.diagnostics
    return _without_scores(
        stages=found["seconds"] | personalization, whitening_passes=found["passes"]
    )


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
    """Return K, the number of classes or factors."""
    return int(settings["n_components"])


def _without_scores(**notes: Any) -> Fitted:
    """Return what is left of a fit that only its time was wanted of."""

    def scores(rows: Csr) -> Array:
        raise NotImplementedError("only the fit is measured; nobody is to ask for lists")

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
