"""Benchmark of exact lists for all users, against brute force and `implicit` in one run."""

from typing import Any

import numpy as np

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import Progress, Seconds, described, no_progress, timed
from mom_pipeline.comparison.isolated import peak_bytes
from mom_pipeline.comparison.methods.interface import as_user_items, missing_implicit
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.ranking.choose import default_weights
from mom_pipeline.core.ranking.score import RankingName
from mom_pipeline.core.ranking.topn import brute_force
from mom_pipeline.core.threads import available_cores, one_blas_thread
from mom_pipeline.core.types import Array, Csr

# Users whose lists brute force checks, and users whose lists the peer makes.
CHECKED_USERS, PEER_USERS = 2_000, 1_000
# Users who get a list by three moments.
LISTED_USERS = 20_000
_SEED = 0
# Scores of the same items, summed in another order, differ by less than this share.
_ROUNDING = 1e-6
# Shares of the run that are done before the lists, after them, and after the check.
_FITTED, _LISTED, _CHECKED = 0.4, 0.7, 0.85


def run_topn(
    n_users: int = 1_000_000,
    n_items: int = 718_675,
    n_pairs: int = 5_669_541,
    n_components: int = 100,
    length: int = 100,
    *,
    ranking: RankingName = "components",
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Make the lists of simulated users; check some, and let the peer make some.

    ranking: by three moments, with the default weights, some users get a list. The peer ranks by
    O and P as its factors: its time depends on their shapes alone, so it is that of as many
    factors of any model of its own.
    """
    rng, seed = np.random.default_rng(_SEED), _SEED
    X = clustered_interactions(n_users, n_items, n_pairs, rng)
    model = MethodOfMoments(
        n_components, ranking=ranking, ranking_weights=default_weights(n_items), seed=seed
    )
    fit, _ = timed(lambda: model.fit(X))
    progress("lists", _FITTED)
    if ranking == "three-moment":
        X = X[_some_users(n_users, LISTED_USERS, rng)]
        n_users = X.shape[0]
    personalization, P = timed(lambda: model.personalize(X))
    preparation, _ = timed(model.fitted.prepare)  # once for all users, however many are listed

    def tell(share: float) -> None:
        progress("lists", _FITTED + share * (_LISTED - _FITTED))

    lists, best = timed(lambda: model.fitted.best(X, length, memberships=P, progress=tell))
    peak = peak_bytes()
    checked = _some_users(n_users, CHECKED_USERS, rng)
    agreement = _agreement(X[checked], model, best.items[checked], best.scores[checked])
    progress("implicit", _CHECKED)
    asked = _some_users(n_users, PEER_USERS, rng)
    peer, peer_ids = _peer_lists(X[asked], P[asked], model.item_probs, length)
    return {
        **described(X, n_components, seed),
        "length": length,
        "ranking": ranking,
        "fit_seconds": fit.wall,
        "personalization_seconds": personalization.wall,
        "preparation_seconds": preparation.wall,
        "lists_seconds": lists.wall,
        "lists_cpu_seconds": lists.cpu,
        "peak_megabytes": peak / 1e6,
        **agreement,
        "implicit_users": len(asked),
        **_peer_agreement(ranking, peer_ids, best.items[asked]),
        **_per_user(lists, n_users, peer, len(asked)),
    }


def _peer_agreement(ranking: RankingName, peer: Array, ids: Array) -> dict[str, int]:
    """Return how many lists of the peer are ours: it ranks by the components alone."""
    return {"implicit_identical_lists": _identical(peer, ids)} if ranking == "components" else {}


def _some_users(n_users: int, n: int, rng: np.random.Generator) -> Array:
    """Return the positions of at most n users, ascending."""
    return np.sort(rng.choice(n_users, min(n, n_users), replace=False))


def _agreement(X: Csr, model: MethodOfMoments, ids: Array, scores: Array) -> dict[str, Any]:
    """Compare lists with those of the whole catalogue.

    Two items whose scores differ by rounding alone may be swapped: such lists are not
    identical, but every position of them has the same score up to `_ROUNDING`.
    """
    seconds, (expected, expected_scores) = timed(
        lambda: brute_force(X, model.scorer(), ids.shape[1])
    )
    near = np.isclose(scores, expected_scores, rtol=_ROUNDING, atol=0).all(axis=1)
    return {
        "checked_users": len(ids),
        "identical_lists": _identical(ids, expected),
        "equal_up_to_rounding": int(near.sum()),
        "whole_catalogue_ms_per_user": 1e3 * seconds.wall / len(ids),
    }


def _identical(ids: Array, expected: Array) -> int:
    """Return how many lists have the same items in the same order."""
    return int((ids == expected).all(axis=1).sum())


def _peer_lists(X: Csr, P: Array, item_probs: Array, length: int) -> tuple[Seconds, Array]:
    """Let `implicit` make the lists of some users from the same factors, on all cores."""
    try:
        from implicit.cpu.topk import topk
    except ImportError as error:
        raise missing_implicit("bench topn", error) from error
    items, users = (np.ascontiguousarray(factors, np.float32) for factors in (item_probs, P))
    seen = as_user_items(X)
    with one_blas_thread():
        seconds, (ids, _) = timed(
            lambda: topk(
                items, users, length, filter_query_items=seen, num_threads=available_cores()
            )
        )
    return seconds, ids


def _per_user(ours: Seconds, n_users: int, peer: Seconds, peer_users: int) -> dict[str, float]:
    """Return milliseconds per user of both, and how many times as fast we are."""
    return {
        "ms_per_user": 1e3 * ours.wall / n_users,
        "implicit_ms_per_user": 1e3 * peer.wall / peer_users,
        "times_as_fast": (peer.wall / peer_users) / (ours.wall / n_users),
        "times_as_fast_by_cpu": (peer.cpu / peer_users) / (ours.cpu / n_users),
    }
