from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench.gowalla import run_gowalla
from mom_pipeline.core import evaluate_ranking
from mom_pipeline.core.ranking.topn import brute_force
from mom_pipeline.datasets.user_lists import read_split

GOWALLA = Path(__file__).parents[2].parent / "shared" / "data" / "gowalla"


def test_runs_on_a_split_in_the_same_format(tmp_path):
    import gzip

    rng = np.random.default_rng(0)
    for name, share in [("train", 12), ("test", 3)]:
        lines = [
            " ".join(map(str, [user, *rng.choice(40, size=share, replace=False)]))
            for user in range(60)
        ]
        (tmp_path / f"{name}.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = run_gowalla(tmp_path, 4)["rows"]
    assert [row["method"].split(",")[0] for row in rows] == ["paper", "balanced", "balanced"]
    assert all(0 < row["recall"] <= 1 for row in rows)


@pytest.mark.skipif(not GOWALLA.exists(), reason="the Gowalla split is not beside the repository")
def test_evaluation_gives_the_known_numbers_of_popularity():
    """A popularity recommender's Recall@20 on this split is known to be about 0.040."""
    train, test = read_split(GOWALLA / "train.txt.gz", GOWALLA / "test.txt.gz")
    assert (train.nnz, test.nnz) == (810_128, 217_242)
    popularity = np.asarray(train.sum(axis=0)).ravel().astype(np.float32)
    ids, _ = brute_force(train, lambda rows: np.tile(popularity, (rows.shape[0], 1)), 20)
    found = evaluate_ranking(ids, test, [20])
    assert found.n_users == 29_858
    assert found.recall[20] == pytest.approx(0.0416, abs=0.002)
