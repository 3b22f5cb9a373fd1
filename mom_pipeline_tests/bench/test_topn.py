from mom_pipeline.bench.topn import run_topn


def test_lists_agree_with_the_whole_catalogue_and_with_the_peer():
    """Small sizes: what it finds and reports, never how fast it was."""
    shares = []
    result = run_topn(
        3_000, 4_000, 30_000, 5, 20, checked_users=200, peer_users=100, progress=shares.append
    )
    assert result["checked_users"] == result["equal_up_to_rounding"] == 200
    # Rounding may swap two items of nearly the same score.
    assert result["identical_lists"] >= 190
    assert result["implicit_identical_lists"] >= 90
    assert result["times_as_fast"] > 0
    assert result["peak_megabytes"] > 0
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_more_users_asked_for_than_there_are():
    result = run_topn(300, 200, 3_000, 3, 10)
    assert result["checked_users"] == result["implicit_users"] == 300
