import pytest

from mom_pipeline.bench.daily import run_daily


def test_every_share_of_changed_users_is_measured():
    """Small sizes: what it reports, never how fast it was."""
    result = run_daily(0.003, n_components=5, shares=(0.01, 0.1))
    assert [day["share_changed"] for day in result["days"]] == [0.01, 0.1]
    full, everyone = result["full_seconds"], result["personalization_seconds"]
    for day in result["days"]:
        assert day["to_full"] == pytest.approx(day["seconds"] / full)
        both = (day["seconds"] + everyone) / (full + everyone)
        assert day["with_everyone_to_full"] == pytest.approx(both)
