"""What an incremental day costs, as a share of a full rebuild in the same run."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.data import random_interactions
from mom_pipeline.bench.measure import Progress, Table, described, no_progress, timed, value_table
from mom_pipeline.core.algorithm.daily_classes import (
    DayClasses,
    decompose_day,
    tensor_in_span,
    whiten_in_span,
    whitening_error,
)
from mom_pipeline.core.evaluation.split_half import HalfMoments, split_half_agreement
from mom_pipeline.core.moments.daily import DailySettings, DayMoments, advance
from mom_pipeline.core.moments.sums import Estimator
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.ranking.parts import popularity_shares
from mom_pipeline.core.types import Array, Csr

SHARES = (0.005, 0.02, 0.08)
_ZIPF = 0.8


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
    settings = DailySettings(Estimator.of("balanced"), n_components, 200, 0.0, seed)
    X = random_interactions(n_users, n_items, n_pairs, rng, zipf_exponent=_ZIPF)
    _one_day(X, None, settings, None)  # touches the memory that the measured days use again
    full, (sums, classes) = timed(lambda: _one_day(X, None, settings, None))
    everyone, _ = timed(lambda: _personalize(X, sums, classes))
    trust, _ = timed(lambda: _split_half(sums, classes))
    progress("full rebuild", 0.5)
    rows = []
    for share in shares:
        changed = np.sort(rng.choice(n_users, size=int(share * n_users), replace=False))
        today = _with_new_rows(X, changed, rng)
        day, _ = timed(partial(_one_day, today, (X, sums), settings, classes.anchor_components))
        rows.append(
            {
                "share_changed": share,
                "seconds": day.wall,
                "to_full": day.wall / full.wall,
                "with_everyone_to_full": (day.wall + everyone.wall) / (full.wall + everyone.wall),
            }
        )
        progress(f"{share:.1%} changed", 0.5 + 0.5 * len(rows) / len(shares))
    return {
        **described(X, n_components, seed),
        "full_seconds": full.wall,
        "personalization_seconds": everyone.wall,
        "split_half_seconds": trust.wall,
        "days": rows,
    }


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
    X: Csr,
    yesterday: tuple[Csr, DayMoments] | None,
    settings: DailySettings,
    anchor_components: Array | None,
) -> tuple[DayMoments, DayClasses]:
    """From the matrix to the decomposition: all that the assets of a day compute."""
    sums = advance(X, yesterday, "measured in full", settings).state
    whitening = whiten_in_span(sums.moments, settings.n_components)
    whitening_error(X, sums.moments, whitening)
    T = tensor_in_span(sums.moments, whitening)
    classes = decompose_day(
        X,
        sums.moments,
        whitening,
        T,
        "clip",
        settings.seed,
        anchor_components=anchor_components,
    )
    return sums, classes


def _personalize(X: Csr, sums: DayMoments, classes: DayClasses) -> Array:
    popularity = popularity_shares(sums.moments.sums.item_users)
    settings = Personalization("product")
    O = smoothed(classes.recovery.item_probs, popularity, settings.smoothing)
    return memberships(X, O, classes.recovery.weights, settings)


def _split_half(sums: DayMoments, classes: DayClasses) -> Array:
    if sums.half is None:
        raise ValueError("the sums of a half come with a rebuild")
    half = HalfMoments.part_of(sums.half)
    return split_half_agreement(sums.moments, half, classes.span_components, seed=0)


def _with_new_rows(X: Csr, changed: Array, rng: np.random.Generator) -> Csr:
    """Give every changed user the row of another one."""
    source = np.arange(X.shape[0])
    source[changed] = rng.integers(0, X.shape[0], len(changed))
    return sparse.csr_array(X[source])
