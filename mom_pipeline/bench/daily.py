"""Benchmark of an incremental day, as a share of a full rebuild in the same run."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.data import random_interactions
from mom_pipeline.bench.measure import Progress, Table, described, no_progress, timed, value_table
from mom_pipeline.core.algorithm.decompose import Components, DecomposeSettings, decompose
from mom_pipeline.core.algorithm.whitening import whitening_error
from mom_pipeline.core.evaluation.split_half import split_half
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

SHARES = (0.005, 0.02, 0.08)
_ZIPF = 0.8
# A day is short beside a rebuild, and so its median is taken.
_REPEATS = 3


def run_daily(
    n_users: int = 1_000_000,
    n_items: int = 718_675,
    n_pairs: int = 5_700_000,
    n_components: int = 100,
    *,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Time a full rebuild, then days on which a share of the users changed, each from it.

    From the matrix to the decomposition, and with everyone's personalization on top. What the
    split-half agreement takes is told beside them; it is the same for both.
    """
    rng = np.random.default_rng(seed)
    settings = _settings(n_components, seed)
    X = random_interactions(n_users, n_items, n_pairs, rng, zipf_exponent=_ZIPF)
    _one_day(X, None, settings)  # touches the memory that the measured days use again
    full, (step, components) = timed(lambda: _one_day(X, None, settings))
    everyone, _ = timed(lambda: _personalize(X, step, components))
    trust, _ = timed(lambda: split_half(step.sums, components.in_span, seed=0))
    yesterday = Yesterday(X, replace(step.anchor, components=components.in_span), step.sums)
    progress("full rebuild", 0.5)
    rows: list[dict[str, float]] = []
    for share in shares:
        today = _with_new_rows(X, share, rng)
        one_day = partial(_one_day, today, yesterday, settings)
        one_day()  # as before the rebuild
        seconds = median(timed(one_day)[0].wall for _ in range(_REPEATS))
        with_everyone = (seconds + everyone.wall) / (full.wall + everyone.wall)
        ratios = {"to_full": seconds / full.wall, "with_everyone_to_full": with_everyone}
        rows.append({"share_changed": share, "seconds": seconds, **ratios})
        progress(f"{share:.1%} changed", 0.5 + 0.5 * len(rows) / len(shares))
    return {
        **described(X, n_components, seed),
        "full_seconds": full.wall,
        "personalization_seconds": everyone.wall,
        "split_half_seconds": trust.wall,
        "days": rows,
    }


def _settings(n_components: int, seed: int) -> MomentSettings:
    return MomentSettings(
        Estimator.from_name("balanced"),
        n_components,
        width_for_days(n_components),
        seed,
        n_frequent=200,
        halves=True,
    )


def tables_daily(result: dict[str, Any]) -> list[Table]:
    """The rebuild, and a row per share of changed users."""
    rows = [
        {
            "changed users": f"{day['share_changed']:.1%}",
            "seconds": f"{day['seconds']:.2f}",
            "of a rebuild": f"{day['to_full']:.1%}",
            "both with everyone's personalization": f"{day['with_everyone_to_full']:.1%}",
        }
        for day in result["days"]
    ]
    return [value_table("Full rebuild", result), Table("Incremental days", rows)]


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
