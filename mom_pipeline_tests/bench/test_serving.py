import pytest

from mom_pipeline.bench.serving import run_query, run_serve


def test_both_are_asked():
    result = run_query(0.005, n_components=4)
    assert [row["ranking"] for row in result["rows"]] == [
        "components",
        "components",
        "three-moment",
    ]
    for row in result["rows"]:
        ratio = row["ours_median_ms"] / row["implicit_median_ms"]
        assert row["ratio"] == pytest.approx(ratio)
        for name in ("ours", "implicit"):
            assert row[f"{name}_median_ms"] <= row[f"{name}_p99_ms"]


def test_no_request_is_lost_under_load():
    result = run_serve(0.003, n_components=4, requests=300, clients=2)
    assert result["errors"] == 0
    assert result["requests"] >= 300
    # Before the promotion the first model alone answers, and every answer is of one of the two.
    assert result["answers_of_the_first_model"] >= 100
    answers = result["answers_of_the_first_model"] + result["answers_of_the_promoted_model"]
    assert answers == result["requests"]
    assert result["p50_ms"] <= result["p99_ms"] <= result["longest_ms"]
