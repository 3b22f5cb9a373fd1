import gzip
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench.accuracy import (
    PAPER,
    UNBIASED,
    line,
    recovery_chart,
    run_gowalla,
    run_recovery,
)
from mom_pipeline.core import MethodOfMoments, evaluate_ranking
from mom_pipeline.core.ranking.topn import brute_force
from mom_pipeline.datasets.splits import read_split

GOWALLA = Path(__file__).parents[2].parent / "shared" / "data" / "gowalla"


def test_only_unbiased_counts_fall_as_one_over_root_n():
    """The smaller version of `mom-pipeline bench recovery`."""
    result = run_recovery(users=(2_000, 8_000, 32_000), n_items=400, n_components=4, seed=2)
    slopes = {row["estimator"]: row["slope"] for row in result["slopes"]}
    assert -0.6 < slopes[UNBIASED] < -0.4
    assert slopes["paper, counts"] > -0.3
    assert slopes[PAPER] > -0.3
    last = {name: line(result["points"], name)[-1] for name in slopes}
    assert abs(last[UNBIASED]["weight_sum"] - 1) < 0.02
    assert last[UNBIASED]["error"] < 0.5 * last["paper, counts"]["error"]
    chart = recovery_chart(result)
    assert [*chart.series] == [*slopes, "1/√N"]
    assert chart.series[UNBIASED][1][-1] == last[UNBIASED]["error"]


def test_runs_on_a_split_in_the_same_format(tmp_path):
    rng = np.random.default_rng(0)
    for name, share in [("train", 12), ("test", 3)]:
        lines = [
            " ".join(map(str, [user, *rng.choice(40, size=share, replace=False)]))
            for user in range(60)
        ]
        (tmp_path / f"{name}.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = run_gowalla(tmp_path, n_components=4)["rows"]
    assert [row["method"].split(",")[0] for row in rows] == ["paper", "balanced", "balanced"]
    train, test = read_split(tmp_path / "train.txt.gz", tmp_path / "test.txt.gz")
    model = MethodOfMoments(4, "balanced", "em", ranking="components").fit(train)
    expected = evaluate_ranking(model.recommend(train, n=20, ranking="components")[0], test, [20])
    assert rows[1]["recall"] == expected.recall[20]
    assert rows[1]["map"] == expected.map[20]


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
