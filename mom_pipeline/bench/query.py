"""One user at a time: our lists against those of `implicit`, in one run."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.methods.implicit_library import (
    as_user_items,
    missing,
    one_blas_thread_each,
)
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.parts import LowPass
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.types import Csr
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

_USERS = 20_000
_ITEMS_PER_USER = 20
_LIST = 20
_WARM_UP = 20


def synthetic_model(
    n_items: int, n_components: int, *, ranking: str, skew: float, seed: int = 0
) -> ServedModel:
    """A model of random classes: items fall in popularity as rank^-skew."""
    rng = np.random.default_rng(seed)
    popularity = np.arange(1, n_items + 1) ** -skew
    rng.shuffle(popularity)
    O = rng.gamma(0.3, size=(n_items, n_components)).astype(np.float32)
    O *= popularity[:, None].astype(np.float32)
    O /= O.sum(axis=0)
    weights = rng.dirichlet(np.full(n_components, 5.0))
    X = _histories(rng, O)
    pair_ranking = _pair_ranking(rng, X, n_components) if ranking == "three-moment" else None
    model = FittedModel(
        item_probs=O,
        weights=weights,
        popularity=popularity / popularity.sum(),
        basis=O[:, :1],
        personalization=Personalization("em"),
        pair_ranking=pair_ranking,
        diagnostics={},
    )
    items = np.array([f"item {y}" for y in range(n_items)], dtype=object)
    users = np.array([f"user {u}" for u in range(_USERS)], dtype=object)
    settings = asdict(ModelSettings(n_components=n_components))
    manifest = Manifest("", "2024-01-01", "bench", f"seed {seed}", settings, {}, {})
    return ServedModel(manifest, model, items, users, X)


def run_query(
    n_items: int,
    n_components: int,
    questions: int,
    *,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Ask both about the same users in turns; milliseconds, and the ratio of the medians."""
    cases = (("components", 0.0), ("components", 0.8), ("three-moment", 0.8))
    rows = []
    for done, (ranking, skew) in enumerate(cases):
        served = synthetic_model(n_items, n_components, ranking=ranking, skew=skew)
        with one_blas_thread_each():
            times = _in_turns(served, n_components, questions)
        rows.append({"ranking": ranking, "skew": skew, **_summary(times)})
        progress((done + 1) / len(cases))
    return {"n_items": n_items, "n_components": n_components, "questions": questions, "rows": rows}


def _in_turns(served: ServedModel, n_components: int, questions: int) -> dict[str, list[float]]:
    """Seconds of every question, asked of one and then of the other."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError as error:
        raise missing("bench query", error) from error
    ours = Recommender(served)
    peer = AlternatingLeastSquares(factors=n_components, num_threads=1)
    rng = np.random.default_rng(1)
    peer.item_factors = rng.normal(size=(ours.n_items, n_components)).astype(np.float32)
    peer.user_factors = rng.normal(size=(_USERS, n_components)).astype(np.float32)
    liked = as_user_items(served.histories)
    times: dict[str, list[float]] = {"ours": [], "implicit": []}
    for question in range(questions + _WARM_UP):
        user = question % _USERS
        start = time.perf_counter()
        ours.recommend(f"user {user}", _LIST)
        middle = time.perf_counter()
        peer.recommend(user, liked[user], N=_LIST)
        times["ours"].append(middle - start)
        times["implicit"].append(time.perf_counter() - middle)
    return times


def _summary(times: dict[str, list[float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, seconds in times.items():
        kept = 1000 * np.array(seconds[_WARM_UP:])
        found |= {
            f"{name}_best_ms": float(kept.min()),
            f"{name}_median_ms": float(np.median(kept)),
            f"{name}_p99_ms": float(np.quantile(kept, 0.99)),
        }
    return found | {"ratio": found["ours_median_ms"] / found["implicit_median_ms"]}


def _histories(rng: np.random.Generator, O: np.ndarray[Any, Any]) -> Csr:
    """Users of one or two classes, each with some items."""
    D, K = O.shape
    cumulated = O.cumsum(axis=0, dtype=np.float64)
    rows = []
    for _ in range(_USERS):
        classes = rng.choice(K, 2)
        places = np.concatenate(
            [
                np.searchsorted(
                    cumulated[:, k], rng.random(_ITEMS_PER_USER // 2) * cumulated[-1, k]
                )
                for k in classes
            ]
        )
        rows.append(np.unique(np.minimum(places, D - 1)))
    ends = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate(rows)
    return sparse.csr_array((np.ones(len(indices)), indices, ends), shape=(_USERS, D))


def _pair_ranking(rng: np.random.Generator, X: Csr, rank: int) -> PairRanking:
    weights = RankingWeights()
    low_pass = LowPass.from_rows(X, weights.user_exponent, rng, rank=rank, tol=1e-2, max_passes=6)
    return PairRanking(X, low_pass, weights)
