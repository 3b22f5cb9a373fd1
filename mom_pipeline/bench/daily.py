"""Benchmark of an incremental day, as a share of a full rebuild in the same run."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.data import ClusteredCatalogue, clustered_interactions
from mom_pipeline.bench.measure import timed
from mom_pipeline.comparison.run import Progress, no_progress
from mom_pipeline.core.algorithm.decompose import Components, DecomposeSettings, decompose
from mom_pipeline.core.algorithm.whitening import whitening_error
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import as_binary, as_interactions
from mom_pipeline.core.moments.days import (
    DayStep,
    MomentSettings,
    Yesterday,
    advance,
    width_for_days,
)
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.parts import USER_EXPONENT
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.types import Csr

_USERS, _ITEMS, _PAIRS = 1_000_000, 718_675, 5_700_000
# Of more items EASE is the limit; see README.
_RANKED, _LIST = (200_000, 40_000, 4_000_000), 20
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

    From the matrix to the decomposition, and with everyone's personalization on top; then, with
    fewer items, with co-occurrences, EASE and lists of 20: of the changed users, or of everyone.
    """
    rng, width = np.random.default_rng(0), width_for_days(n_components)
    settings = MomentSettings(Estimator.from_name("balanced"), n_components, width, 0, halves=True)
    X = _interactions(scale, rng)
    _one_day(X, None, settings)  # touches the memory that the measured days use again
    full, (step, components) = timed(lambda: _one_day(X, None, settings))
    rule = Personalization("product")
    O = smoothed(components.item_probs, step.sums.first.popularity, rule.smoothing)
    everyone, _ = timed(lambda: memberships(X, O, components.weights, rule))
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
        progress(f"{share:.1%} changed", 0.5 + 0.25 * len(days) / len(shares))
    n_users, n_items, n_pairs = (round(scale * size) for size in _RANKED)
    ranked = clustered_interactions(n_users, n_items, n_pairs, rng)
    return {
        "users": X.shape[0],
        "items": X.shape[1],
        "interactions": int(X.nnz),
        "n_components": n_components,
        "full_seconds": full,
        "personalization_seconds": everyone,
        "days": days,
        "ranked_users": n_users,
        "ranked_items": n_items,
        "ranked_interactions": n_pairs,
        "ranked": _ranked_days(ranked, settings, shares, rng),
    }


def _ranked_days(
    X: Csr, settings: MomentSettings, shares: Sequence[float], rng: np.random.Generator
) -> list[dict[str, float]]:
    """Time a rebuild and days with all that lists are made of; the first row is the rebuild."""
    settings = replace(settings, pair_exponent=USER_EXPONENT)
    full, step, components = _ranked_day(X, None, settings)
    anchor = replace(step.anchor, components=components.in_span)
    yesterday = Yesterday(X, anchor, step.sums, step.pairs)
    rows = [{"share_changed": 1.0, **full, "to_full": 1.0}]
    for share in shares:
        day, _, _ = _ranked_day(_with_new_rows(X, share, rng), yesterday, settings)
        rows.append({"share_changed": share, **day, "to_full": day["seconds"] / full["seconds"]})
    return rows


def _ranked_day(
    X: Csr, yesterday: Yesterday | None, settings: MomentSettings
) -> tuple[dict[str, float], DayStep, Components]:
    """Seconds of the parts of a day, and of all of them."""
    moments, (step, components) = timed(lambda: _one_day(X, yesterday, settings))
    pairs = step.pairs
    if pairs is None:
        raise TooLittleData("the settings keep no co-occurrences")
    ease, made = timed(lambda: Ease.from_counts(pairs.counts))
    model = FittedModel(
        components.item_probs,
        components.weights,
        step.sums.first.popularity,
        Personalization("product"),
        PairRanking(pairs.counts, made, RankingWeights()),
    )
    changed = X if yesterday is None else X[step.changed]
    lists, _ = timed(lambda: model.best(changed, _LIST))
    parts = {"moments_seconds": moments, "ease_seconds": ease, "lists_seconds": lists}
    times = {**parts, "seconds": sum(parts.values())}
    return {"lists": changed.shape[0], **times}, step, components


def _interactions(scale: float, rng: np.random.Generator) -> Csr:
    """Return entries of 1: users at random, items by Zipf's law."""
    n_users, n_items, n_pairs = (round(scale * size) for size in (_USERS, _ITEMS, _PAIRS))
    users = rng.integers(0, n_users, n_pairs)
    items = ClusteredCatalogue.random(n_items, 1, rng).draw(np.full(n_pairs, -1), rng)
    entries = (np.ones(n_pairs), (users, items))
    return as_binary(as_interactions(sparse.csr_array(entries, shape=(n_users, n_items))))


def _one_day(
    X: Csr, yesterday: Yesterday | None, settings: MomentSettings
) -> tuple[DayStep, Components]:
    """From the matrix to the decomposition: all that the assets of a day compute."""
    step = advance(X, yesterday, "measured in full", settings)
    wanted = DecomposeSettings(settings.n_components, seed=settings.seed)
    components = decompose(step.anchor, step.sums, wanted)
    whitening_error(UsersInMemory(X), step.anchor, step.sums, components.whitening)
    return step, components


def _with_new_rows(X: Csr, share: float, rng: np.random.Generator) -> Csr:
    """Give a share of the users the rows of others."""
    n_users = X.shape[0]
    changed = np.sort(rng.choice(n_users, size=int(share * n_users), replace=False))
    source = np.arange(n_users)
    source[changed] = rng.integers(0, n_users, len(changed))
    return sparse.csr_array(X[source])
