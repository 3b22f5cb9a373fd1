"""Ranking quality on the public Gowalla split, settings chosen on the training part alone."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mom_pipeline.core import MethodOfMoments, evaluate_ranking
from mom_pipeline.core.model import RankingName
from mom_pipeline.core.moments.sums import EstimatorName
from mom_pipeline.core.ranking.memberships import RuleName
from mom_pipeline.datasets.user_lists import read_split

CUTOFF = 20
# (label, estimator, rule, ranking)
ROWS: tuple[tuple[str, EstimatorName, RuleName, RankingName], ...] = (
    ("paper, product rule", "paper", "product", "classes"),
    ("balanced, classes", "balanced", "em", "classes"),
    ("balanced, three moments", "balanced", "em", "three-moment"),
)


def run_gowalla(
    folder: Path,
    n_components: int = 100,
    *,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Fit on train, measure once on all users of test; returns a row per method."""
    train, test = read_split(folder / "train.txt.gz", folder / "test.txt.gz")
    rows = []
    for done, (label, estimator, rule, ranking) in enumerate(ROWS):
        start = time.perf_counter()
        model = MethodOfMoments(n_components, estimator, rule, ranking=ranking, seed=seed)
        model.fit(train)
        fitted = time.perf_counter()
        ids, _ = model.recommend(train, n=CUTOFF, ranking=ranking)
        recommended = time.perf_counter()
        metrics = evaluate_ranking(ids, test, [CUTOFF])
        rows.append(
            {
                "method": label,
                "recall": metrics.recall[CUTOFF],
                "ndcg": metrics.ndcg[CUTOFF],
                "map": metrics.map[CUTOFF],
                "users": metrics.n_users,
                "fit_seconds": fitted - start,
                "recommend_seconds": recommended - fitted,
                "ranking_weights": model.diagnostics["ranking_weights"],
                "negative_mass": model.diagnostics["negative_mass"],
            }
        )
        progress((done + 1) / len(ROWS))
    return {"n_components": n_components, "cutoff": CUTOFF, "seed": seed, "rows": rows}
