import gzip

import numpy as np

from mom_pipeline.bench.accuracy import (
    PAPER,
    UNBIASED,
    line,
    recovery_chart,
    run_gowalla,
    run_recovery,
)
from mom_pipeline.core import MethodOfMoments, evaluate_ranking
from mom_pipeline.datasets.splits import read_split


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
