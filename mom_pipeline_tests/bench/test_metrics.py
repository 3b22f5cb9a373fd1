import pytest

from mom_pipeline.bench.metrics import run_metrics


def test_both_give_the_same_and_memory_is_bounded():
    """The bench itself refuses to report when the two recalls differ."""
    result = run_metrics(6_000, 200, 5_000, repeats=1)
    assert result["peer_users"] == 200
    assert result["times_as_fast"] == pytest.approx(result["peer_seconds"] / result["our_seconds"])
    # Four metrics at eleven cut-offs, in double precision.
    assert result["of_which_values_per_user"] == pytest.approx(6_000 * 4 * 11 * 8 / 1e6, rel=0.01)
    # Blocks of some megabytes on each thread, whatever the number of users.
    working = result["peak_megabytes"] - result["of_which_values_per_user"]
    assert 0 < working < 200
