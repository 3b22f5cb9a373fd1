"""The table of the paper at toy sizes, by real processes: what it holds, never how fast it was."""

from itertools import product

from mom_pipeline.bench.measure import tables_of
from mom_pipeline.bench.paper import THREADS, PaperSize, run_paper

SECONDS = {"mom": 10, "bpr": 5}
TOY = PaperSize("Toy", "toys", 300, 200, 2_400, 600, 0.04, SECONDS)
# No process so much as starts within this many seconds.
NO_TIME = 1e-3


def test_every_method_has_a_row_for_each_mode_of_threads():
    """One of them: `reproduce` runs all on one core."""
    told, methods = [], ("mom",)
    result = run_paper([TOY], methods, n_components=4, progress=lambda _, share: told.append(share))
    rows = {(row["method"], row["threads"]): row for row in result["rows"]}
    assert set(rows) == set(product(methods, THREADS))
    for row in rows.values():
        assert row["failure"] == ""
        # An interpreter with numpy alone takes more than this.
        assert row["peak_gigabytes"] > 0.02
        assert row["to_mom"] == row["paper_to_mom"] == 1
    stages = rows["mom", "one"]["notes"]["stages"]
    assert list(stages) == ["whitening", "tensor", "decomposition", "personalization"]
    assert 0 < sum(stages.values()) <= rows["mom", "one"]["seconds"]
    assert told == sorted(told)
    assert told[0] == 0
    assert told[-1] < 1


def test_a_method_over_its_budget_is_shown_as_a_dash():
    result = run_paper([TOY], ("bpr",), time_budget=NO_TIME)
    assert [row["threads"] for row in result["rows"]] == list(THREADS)
    for row in result["rows"]:
        assert row["seconds"] is row["to_mom"] is None
        assert "takes longer than the 0.001 s allowed" in row["failure"]
    *_, table = tables_of("paper", result)
    assert sum(row.count("–") for row in table.rows) >= 3
