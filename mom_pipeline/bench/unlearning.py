"""Benchmark of forgetting: the users that CURE4Rec removes, beside retraining from scratch.

CURE4Rec (Chen et al., NeurIPS 2024) publishes data sets and the users to be removed: `core` ones
with many interactions and `edge` ones with few.
"""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.measure import timed
from mom_pipeline.comparison.run import Progress, no_progress
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.evaluation.metrics import evaluate_ranking
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.ranking.topn import BestItems
from mom_pipeline.core.types import Array, Csr

_SETS = ("ml-100k", "adm")
_KINDS, _SHARES = ("core", "edge"), (5, 10, 15, 20)
_N = 20
# Users, drawn from those who are left, whose lists are compared.
_ASKED = 2_000
# The low-pass part is made of all rows: alone of all that ranks it cannot be renewed without them.
_WITHOUT = {"low_pass": (0.0, 0.0)}


def run_unlearning(
    folder: Path, *, n_components: int = 32, progress: Progress = no_progress
) -> dict[str, Any]:
    """Fit, let the model forget users, and compare with a fit to the others: lists, time, quality.

    given: forgetting alone, the weights of the ranking stay.  anew: with weights learnt on who is
    left, as from scratch.
    """
    steps = [(name, kind, share) for name in _SETS for kind in _KINDS for share in _SHARES]
    rows, models = list[dict[str, Any]](), dict[str, tuple[Csr, Csr, MethodOfMoments]]()
    for number, (name, kind, share) in enumerate(steps):
        file = folder / name / f"{kind}_data_{share}.csv.gz"
        if not file.exists():
            continue
        if name not in models:
            train, test = _split(folder / name)
            models = {name: (train, test, _method(n_components).fit(train))}
        users = np.unique(_pairs(file)[0])
        removed = {"data": name, "removed": f"{kind} {share} %"}
        rows.append(removed | _forgotten(*models[name], users, n_components))
        progress(f"{name} {kind} {share} %", (number + 1) / len(steps))
    equal, lists = (sum(row[key] for row in rows) for key in ("equal", "lists"))
    return {"n_components": n_components, "lists": lists, "equal": equal, "rows": rows}


def _forgotten(
    train: Csr, test: Csr, model: MethodOfMoments, users: Array, n_components: int
) -> dict[str, Any]:
    """What a model is after forgetting users, beside one that never knew them."""
    stays = np.ones(train.shape[0], dtype=bool)
    stays[users] = False
    left, wanted, ours = train[stays], test[stays], deepcopy(model)
    seconds, _ = timed(lambda: ours.forget(train[~stays]))
    scratch, other = timed(lambda: _method(n_components).fit(left))
    # Of who is left, and of nothing else: the same weights, after the same time.
    learning = other.diagnostics["seconds"]["ranking weights"]
    weights = RankingWeights(**other.diagnostics["ranking_weights"])
    drawn = np.random.default_rng(0).permutation(left.shape[0])[:_ASKED]
    X, wanted = left[np.sort(drawn)], wanted[np.sort(drawn)]
    models = model.fitted, with_weights(ours.fitted, weights), other.fitted
    before, anew, theirs = (each.best(X, _N) for each in models)
    (recall, ndcg), (recall_after, ndcg_after) = (_quality(b, wanted) for b in (before, anew))
    return {
        "users": len(users),
        "share_of_rows": 1 - left.nnz / train.nnz,
        "lists": X.shape[0],
        "equal": lists_equal(anew, theirs),
        "given_seconds": seconds,
        "given_share": seconds / scratch,
        "anew_seconds": seconds + learning,
        "scratch_seconds": scratch,
        "anew_share": (seconds + learning) / scratch,
        "recall_before": recall,
        "recall_after": recall_after,
        "ndcg_before": ndcg,
        "ndcg_after": ndcg_after,
    }


def _method(n_components: int) -> MethodOfMoments:
    return MethodOfMoments(n_components, fixed_weights=_WITHOUT)


def with_weights(model: FittedModel, weights: RankingWeights) -> FittedModel:
    """The model with other weights of the ranking."""
    if model.pair_ranking is None:
        return model
    return replace(model, pair_ranking=replace(model.pair_ranking, weights=weights))


def lists_equal(ours: BestItems, theirs: BestItems) -> int:
    """How many users have the same items in the same order, and scores to rounding."""
    near = np.isclose(ours.scores, theirs.scores, rtol=1e-5, atol=1e-6).all(axis=1)
    return int(((ours.items == theirs.items).all(axis=1) & near).sum())


def _quality(lists: BestItems, wanted: Csr) -> tuple[float, float]:
    metrics = evaluate_ranking(lists.items, wanted, [_N])
    return metrics.recall[_N], metrics.ndcg[_N]


def _split(folder: Path) -> tuple[Csr, Csr]:
    """Train and test, (users, items) each, of ones."""
    parts = [_pairs(folder / f"{part}.csv.gz") for part in ("train", "test")]
    n_users, n_items = (max(int(part[i].max()) for part in parts) + 1 for i in (0, 1))
    train, test = (
        as_interactions(
            sparse.csr_array((np.ones(len(u)), (u, i)), shape=(n_users, n_items))
        ).sign()
        for u, i in parts
    )
    return train, test


def _pairs(path: Path) -> tuple[Array, Array]:
    """The users and items of a file (uid, iid, …)."""
    columns = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 1), ndmin=2).astype(np.int64)
    return columns[:, 0], columns[:, 1]
