import pytest

from mom_pipeline.bench.serving import run_query, run_serve, tables_query


def test_both_are_asked():
    result = run_query(n_items=500, n_components=4, questions=5)
    assert [row["ranking"] for row in result["rows"]] == [
        "components",
        "components",
        "three-moment",
    ]
    for row in result["rows"]:
        ratio = row["ours_median_ms"] / row["implicit_median_ms"]
        assert row["ratio"] == pytest.approx(ratio)
        for name in ("ours", "implicit"):
            assert row[f"{name}_best_ms"] <= row[f"{name}_median_ms"] <= row[f"{name}_p99_ms"]
    (table,) = tables_query(result)
    assert [row["skew"] for row in table.rows] == ["0.0", "0.8", "0.8"]


def test_no_request_is_lost_under_load():
    result = run_serve(n_items=300, n_components=4, requests=300, clients=2)
    assert result["errors"] == 0
    assert result["requests"] >= 300
    # Before the promotion the first model alone answers, and every answer is of one of the two.
    assert result["answers_of_the_first_model"] >= 100
    answers = result["answers_of_the_first_model"] + result["answers_of_the_promoted_model"]
    assert answers == result["requests"]
    assert result["p50_ms"] <= result["p99_ms"] <= result["longest_ms"]
