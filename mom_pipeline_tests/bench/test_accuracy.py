import gzip

import numpy as np
import pytest

from mom_pipeline.bench.accuracy import (
    PAPER,
    UNBIASED,
    efficiency,
    likelihoods,
    line,
    recovery_chart,
    run_gowalla,
    run_recovery,
)
from mom_pipeline.core import MethodOfMoments, evaluate_ranking
from mom_pipeline.datasets.published import read_split


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
    assert [row["users"] for row in result["after_em"]] == [2_000, 8_000, 32_000]
    assert all(row["refined_by_from_truth"] < 1.02 for row in result["after_em"])
    assert result["after_em"][-1]["spectral_by_from_truth"] > 1.03
    chart = recovery_chart(result)
    assert [*chart.series] == [*slopes, "1/√N"]
    assert chart.series[UNBIASED][1][-1] == last[UNBIASED]["error"]


def test_the_refined_estimate_is_at_the_cramer_rao_bound():
    """The smaller version of the table `efficiency` of `mom-pipeline bench recovery`."""
    spectral, refined, ideal = efficiency(n_users=4_000, n_simulated=60_000, repetitions=8)
    assert 0.9 < refined["by_the_bound"] < 1.1
    assert refined["rmse"] == pytest.approx(ideal["rmse"], rel=1e-3)
    assert spectral["by_the_bound"] > refined["by_the_bound"]


def test_held_out_likelihood_beside_plsi(tmp_path, publish):
    """The real thing is `mom-pipeline bench recovery FOLDER`: here a log of two tastes."""
    rng = np.random.default_rng(0)
    lines = [
        f"{user}::{item}::7::{1362000000 + user}"
        for user in range(300)
        for item in rng.choice(20, 6, replace=False) + 20 * (user % 2)
    ]
    publish(lines)
    row = next(likelihoods(tmp_path, n_components=2, starts=2))
    assert row["popularity"] == pytest.approx(-np.log(40), abs=0.05)
    assert row["refined"] > row["popularity"] + 0.5
    assert row["refined"] >= row["plsi_best"] - 0.02


def test_runs_on_a_split_in_the_same_format(tmp_path):
    drawn = np.random.default_rng(0).permuted(np.tile(np.arange(40), (60, 1)), axis=1)
    for name, items in (("train", drawn[:, :12]), ("test", drawn[:, 12:15])):
        lines = [" ".join(map(str, [user, *own])) for user, own in enumerate(items)]
        (tmp_path / f"{name}.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = run_gowalla(tmp_path, n_components=4)["rows"]
    assert [row["failure"] for row in rows] == [""] * 3
    train, test = read_split(tmp_path / "train.txt.gz", tmp_path / "test.txt.gz")
    model = MethodOfMoments(4, "balanced", "em", ranking="components").fit(train)
    expected = evaluate_ranking(model.recommend(train, n=20, ranking="components")[0], test, [20])
    assert rows[1]["recall"] == pytest.approx(expected.recall[20])
    assert rows[1]["map"] == pytest.approx(expected.map[20])
