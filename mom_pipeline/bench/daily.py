"""Benchmark of an incremental day, as a share of a full rebuild in the same run."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.data import random_interactions
from mom_pipeline.bench.measure import Progress, no_progress, timed
from mom_pipeline.core.algorithm.decompose import Components, DecomposeSettings, decompose
from mom_pipeline.core.algorithm.whitening import whitening_error
from mom_pipeline.core.moments.days import (
    DayStep,
    MomentSettings,
    Yesterday,
    advance,
    width_for_days,
)
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.types import Array, Csr

_USERS, _ITEMS, _PAIRS, _ZIPF = 1_000_000, 718_675, 5_700_000, 0.8
# A day is short beside a rebuild, and so its median is taken.
_REPEATS = 3


def run_daily(
    scale: float = 1.0,
    *,
    n_components: int = 100,
    shares: Sequence[float] = (0.005, 0.02, 0.08),
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Time a full rebuild, then days on which a share of the users changed, each from it.

    From the matrix to the decomposition, and with everyone's personalization on top.
    """
    rng = np.random.default_rng(0)
    settings = MomentSettings(
        Estimator.from_name("balanced"),
        n_components,
        width_for_days(n_components),
        0,
        halves=True,
    )
    n_users, n_items, n_pairs = (round(scale * size) for size in (_USERS, _ITEMS, _PAIRS))
    X = random_interactions(n_users, n_items, n_pairs, rng, zipf_exponent=_ZIPF)
    _one_day(X, None, settings)  # touches the memory that the measured days use again
    full, (step, components) = timed(lambda: _one_day(X, None, settings))
    everyone, _ = timed(lambda: _personalize(X, step, components))
    yesterday = Yesterday(X, replace(step.anchor, components=components.in_span), step.sums)
    progress("full rebuild", 0.5)
    days: list[dict[str, float]] = []
    for share in shares:
        one_day = partial(_one_day, _with_new_rows(X, share, rng), yesterday, settings)
        one_day()  # as before the rebuild
        seconds = median(timed(one_day)[0] for _ in range(_REPEATS))
        days.append(
            {
                "share_changed": share,
                "seconds": seconds,
                "to_full": seconds / full,
                "with_everyone_to_full": (seconds + everyone) / (full + everyone),
            }
        )
        progress(f"{share:.1%} changed", 0.5 + 0.5 * len(days) / len(shares))
    return {
        "users": n_users,
        "items": n_items,
        "interactions": int(X.nnz),
        "n_components": n_components,
        "full_seconds": full,
        "personalization_seconds": everyone,
        "days": days,
    }


def _one_day(
    X: Csr, yesterday: Yesterday | None, settings: MomentSettings
) -> tuple[DayStep, Components]:
    """From the matrix to the decomposition: all that the assets of a day compute."""
    step = advance(X, yesterday, "measured in full", settings)
    wanted = DecomposeSettings(settings.n_components, seed=settings.seed)
    components = decompose(step.anchor, step.sums, wanted)
    whitening_error(UsersInMemory(X), step.anchor, step.sums, components.whitening)
    return step, components


def _personalize(X: Csr, step: DayStep, components: Components) -> Array:
    settings = Personalization("product")
    O = smoothed(components.item_probs, step.sums.first.popularity, settings.smoothing)
    return memberships(X, O, components.weights, settings)


def _with_new_rows(X: Csr, share: float, rng: np.random.Generator) -> Csr:
    """Give a share of the users the rows of others."""
    n_users = X.shape[0]
    changed = np.sort(rng.choice(n_users, size=int(share * n_users), replace=False))
    source = np.arange(n_users)
    source[changed] = rng.integers(0, n_users, len(changed))
    return sparse.csr_array(X[source])
