from mom_pipeline.bench.metrics import run_metrics


def test_both_find_the_same_and_memory_is_bounded():
    result = run_metrics(6_000, 200, 5_000, repeats=1)
    assert result["peer_users"] == 200
    assert result["times_as_fast"] > 0
    # Blocks of some megabytes on each thread, whatever the number of users.
    working = result["peak_megabytes"] - result["of_which_values_per_user"]
    assert 0 < working < 200
