"""Results on disk, in tables and in the figure."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from mom_pipeline.comparison import tables
from mom_pipeline.comparison.results import (
    Comparison,
    DataDescription,
    Interval,
    MethodResult,
    load,
    newest_until,
    save,
)

CUTOFFS = (5, 20, 100)


def method(name, level, **fields):
    values = {metric: np.full((4, 3), level) for metric in ("precision", "recall", "map", "ndcg")}
    means = {metric: tuple(array.mean(axis=0).tolist()) for metric, array in values.items()}
    figures = {"coverage": (0.1, 0.2, 0.3), "novelty": (3.0, 4.0, 5.0), "fit_seconds": level * 1000}
    return MethodResult(name, name.upper(), means=means, per_user=values, **figures, **fields)


@pytest.fixture
def comparison():
    gains = tuple(Interval(-0.1, -0.12, -0.08) for _ in CUTOFFS)
    ours = method("ours", 0.25, settings={"n_components": 100})
    theirs = method("theirs", 0.15, differences=dict.fromkeys(ours.means, gains))
    failed = MethodResult("wrmf", "WRMF", failure="takes longer than the 60 s allowed")
    data = DataDescription("Ta-Feng", 24_304, 21_533, 417_246, 274_479, "Online Grocery")
    methods = (failed, theirs, ours)
    more = {"day": "2024-03-05", "n_newcomers": 1, "n_unknown": 3}
    return Comparison(data, "train 1, test 2", CUTOFFS, "ours", 4, 2, True, 0, methods, **more)


def bare(comparison):
    return replace(comparison, results=tuple(replace(r, per_user={}) for r in comparison.results))


def test_what_is_saved_is_loaded_and_a_second_takes_the_place_of_the_first(comparison, tmp_path):
    save(comparison, tmp_path)
    assert load(tmp_path) == bare(comparison)
    with np.load(tmp_path / "per-user.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["ours/map"], comparison.result("ours").per_user["map"])
    other = replace(comparison, results=(method("ours", 0.5),))
    save(other, tmp_path)
    assert load(tmp_path) == bare(other)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"data": {"name": "a"}}'])
def test_damage_is_noticed_and_passed_over(comparison, tmp_path, text):
    save(comparison, tmp_path / "good")
    save(replace(comparison, day="2024-03-06"), tmp_path / "bad")
    (tmp_path / "bad" / "comparison.json").write_text(text)
    for name in ("none", "bad"):
        with pytest.raises((OSError, ValueError)):
            load(tmp_path / name)
    assert newest_until(tmp_path, date(2024, 3, 31)) == bare(comparison)


def test_the_newest_up_to_a_day(comparison, tmp_path):
    for name, changed in {
        "a": {},
        "b": {"created": "2024-04-01"},
        "c": {"day": "2024-03-07"},
        "files": {"day": ""},
    }.items():
        save(replace(comparison, **changed), tmp_path / name)
    assert newest_until(tmp_path, date(2024, 3, 6)).created == "2024-04-01"
    assert newest_until(tmp_path, date(2024, 3, 7)).day == "2024-03-07"
    assert newest_until(tmp_path, date(2024, 3, 4)) is None


def test_the_tables(comparison):
    (data,) = tables.description_table(comparison).rows
    assert data[:5] == ("Ta-Feng", "Online Grocery", "24,304", "21,533", "417,246")
    assert data[5:] == ("7.97×10⁻⁴", "274,479")
    costs = tables.cost_table(comparison).records()
    assert [row["fit, s"] for row in costs] == ["–", "150.00", "250.00"]
    assert costs[2]["settings chosen"] == "n_components 100"
    shown = tables.metrics_table(comparison)
    assert shown.columns[1:4] == ("Precision@20", "Recall@20", "Δ Recall [95 %]")
    failed, theirs, ours = shown.rows
    assert set(failed[1:]) == {"–"}
    assert theirs[2:5] == ("0.1500", "-100.0 [-120.0, -80.0]", "0.1500")
    assert ours[3] == "reference"
    assert tables.summary(comparison) == "Recall@20: WRMF –, THEIRS 0.1500, OURS 0.2500"


def test_remarks_say_who_is_missing_and_what_is_short(comparison):
    said = " ".join(tables.remarks(comparison))
    for words in ("measured: 4", "1 without a history", "2 who took nothing new", "3 of the rel"):
        assert words in said
    assert "catalogue has" not in said
    em = method("em", 0.2, notes={"iterations": 12, "converged": False})
    small = replace(comparison.data, items=30)
    said = "\n".join(tables.remarks(replace(comparison, data=small, results=(em,), reference="em")))
    assert "at the cut-offs 100 lists" in said
    assert "12 iterations, without" in said


def test_the_figure_has_a_line_for_every_method_with_a_result(comparison):
    left, right = tables.figure_2(comparison)
    for panel in (left, right):
        assert [*panel.series] == ["THEIRS", "OURS"]
        assert "n = 4 users" in panel.axes.y
        assert panel.bold == "OURS"
    np.testing.assert_allclose(left.series["OURS"][1], 0.25)
    np.testing.assert_allclose(right.series["THEIRS"][0], CUTOFFS)
