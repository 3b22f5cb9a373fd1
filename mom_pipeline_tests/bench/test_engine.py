"""The benches over shards run at any size, and their parts add up."""

import numpy as np
import pytest

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.engine import (
    LargeData,
    first_part,
    plot_growth,
    projected,
    run_engine,
    run_growth,
)
from mom_pipeline.engine import write_shards


def test_growth_measures_every_part_of_the_users() -> None:
    result = run_growth(1_600, 300, 12_800, 4, eighths=("8", "1"))
    rows = result["rows"]
    assert [row["factor"] for row in rows] == [1, 8]
    assert rows[-1]["n_users"] == 1_600
    assert rows[-1]["n_pairs"] == 12_800
    for row in rows:
        assert row["n_users"] == pytest.approx(200 * row["factor"], rel=0.1)
        assert row["seconds"] >= sum(row["stages"].values())
        assert row["peak_bytes"] > 10e6
    seconds = [row["seconds"] for row in rows]
    users = [row["n_users"] for row in rows]
    slope = np.log(seconds[1] / seconds[0]) / np.log(users[1] / users[0])
    assert result["slope"] == pytest.approx(slope)
    assert plot_growth(result).startswith(b"\x89PNG")


def test_the_first_shards_are_a_data_set_of_their_own(tmp_path) -> None:
    X = clustered_interactions(800, 200, 6_400, np.random.default_rng(0))
    shards = write_shards(X, str(tmp_path), n_shards=8)
    half = first_part(shards, 0.5)
    assert len(half.entries) == 4
    assert half.shape == (sum(entry.n_users for entry in shards.entries[:4]), 200)


def test_engine_bench_counts_bytes_and_seconds() -> None:
    result = run_engine(2_000, 1_500, 16_000, 6, repeats=1)
    by_name = {row["pass"]: row for row in result["rows"]}
    assert set(by_name) == {"moments", "pair product", "tensor"}
    # The block of columns in single precision, and the items' scale in double.
    assert by_name["pair product"]["sent_bytes"] == 1_500 * (8 * 4 + 8)
    # One worker passes its sum to the other, which sends the total back.
    assert by_name["pair product"]["passed_on_bytes"] > 2 * 1_500 * 8 * 4
    assert by_name["tensor"]["passed_on_bytes"] > 2 * 6**3 * 8
    # Nothing is sent along with the first pass; its sums hold two numbers per item at least.
    assert by_name["moments"]["sent_bytes"] == 0
    assert by_name["moments"]["passed_on_bytes"] > 2 * 1_500 * 2 * 8
    for row in result["rows"]:
        ratio = row["one_worker_seconds"] / row["two_workers_seconds"]
        assert row["strong"] == pytest.approx(ratio)
    tensor = by_name["tensor"]["one_worker_seconds"]
    assert result["constants"]["us_per_user_and_tensor"] == pytest.approx(1e6 * tensor / 2_000)


def test_a_projection_is_compute_shared_and_network_not() -> None:
    constants = {"ns_per_pair_and_column": 2.0, "us_per_user_and_tensor": 5.0}
    small = projected(constants, LargeData(n_workers=1), 100)
    large = projected(constants, LargeData(n_workers=100), 100)
    assert small["tensor_compute_seconds"] == pytest.approx(5_000)
    assert large["tensor_compute_seconds"] == pytest.approx(50)
    assert small["pair_product_compute_seconds"] == pytest.approx(2e-9 * 20e9 * 32)
    assert large["pair_product_network_seconds"] == pytest.approx(8 * 10e6 * 32 * 4 / 1.25e9)
    assert small["pair_product_network_seconds"] == pytest.approx(10e6 * 32 * 4 / 1.25e9)
