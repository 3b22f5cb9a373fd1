from mom_pipeline.bench.query import run_query
from mom_pipeline.bench.serve import run_serve


def test_both_are_asked():
    result = run_query(n_items=500, n_components=4, questions=5)
    assert [row["ranking"] for row in result["rows"]] == [
        "components",
        "components",
        "three-moment",
    ]
    assert all(row["ratio"] > 0 for row in result["rows"])


def test_no_request_is_lost_under_load():
    result = run_serve(n_items=300, n_components=4, requests=300, clients=2)
    assert result["errors"] == 0
    assert result["requests"] >= 300
    assert result["answers_of_the_first_model"] > 0
    assert result["p99_ms"] >= result["p50_ms"] > 0
