from mom_pipeline.bench.accuracy import plot_recovery, run_recovery


def test_only_unbiased_counts_fall_as_one_over_root_n(tmp_path):
    """The smaller version of `mom-pipeline bench recovery`."""
    result = run_recovery((2_000, 8_000, 32_000), n_items=400, n_components=4, seed=2)
    slopes = result["slopes"]
    assert -0.6 < slopes["unbiased, counts"] < -0.4
    assert slopes["paper, counts"] > -0.3
    assert slopes["paper, binary"] > -0.3
    last = {f"{p['estimator']}, {p['data']}": p for p in result["points"][-4:]}
    assert abs(last["unbiased, counts"]["weight_sum"] - 1) < 0.02
    assert last["unbiased, counts"]["error"] < 0.5 * last["paper, counts"]["error"]
    picture = tmp_path / "figure" / "recovery.png"
    plot_recovery(result, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
