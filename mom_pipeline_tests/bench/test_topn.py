import pytest

from mom_pipeline.bench import topn


def test_lists_agree_with_the_whole_catalogue_and_with_the_peer(monkeypatch):
    """Small sizes: what it reports, never how fast it was."""
    monkeypatch.setattr(topn, "CHECKED_USERS", 200)
    monkeypatch.setattr(topn, "PEER_USERS", 100)
    shares = []
    told = lambda text, share: shares.append(share)  # noqa: E731
    result = topn.run_topn(3_000, 4_000, 30_000, 5, 20, progress=told)
    assert result["checked_users"] == result["equal_up_to_rounding"] == 200
    # Rounding may swap two items of nearly the same score.
    assert result["identical_lists"] >= 190
    assert result["implicit_identical_lists"] >= 90
    per_user = result["implicit_ms_per_user"] / result["ms_per_user"]
    assert result["times_as_fast"] == pytest.approx(per_user)
    assert result["ms_per_user"] == pytest.approx(1e3 * result["lists_seconds"] / 3_000)
    # An interpreter with numpy alone takes more than this.
    assert result["peak_megabytes"] > 20
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1


def test_more_users_asked_for_than_there_are():
    result = topn.run_topn(300, 200, 3_000, 3, 10)
    assert result["checked_users"] == result["implicit_users"] == 300


def test_lists_by_three_moments_of_some_users(monkeypatch):
    monkeypatch.setattr(topn, "LISTED_USERS", 500)
    result = topn.run_topn(3_000, 400, 30_000, 5, 20, ranking="three-moment")
    assert result["checked_users"] == result["implicit_users"] == 500
    assert result["equal_up_to_rounding"] == 500
    assert "implicit_identical_lists" not in result  # its factors are the components
    assert result["ms_per_user"] == pytest.approx(1e3 * result["lists_seconds"] / 500)
