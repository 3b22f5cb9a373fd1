from mom_pipeline.bench.daily import run_daily


def test_every_share_of_changed_users_is_measured():
    """Small sizes: that it runs and what it reports, never how fast it was."""
    result = run_daily(3_000, 800, 20_000, 5, shares=(0.01, 0.1))
    assert [day["share_changed"] for day in result["days"]] == [0.01, 0.1]
    assert all(day["to_full"] > 0 for day in result["days"])
    assert result["full_seconds"] > 0
