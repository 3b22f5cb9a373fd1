"""Results on disk, in tables and in the figure."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from mom_pipeline.comparison import tables
from mom_pipeline.comparison.results import (
    Comparison,
    DamagedComparison,
    DataDescription,
    Interval,
    MethodResult,
    load,
    save,
)

CUTOFFS = (5, 20, 100)


def method(name, level, **fields):
    values = {metric: np.full((4, 3), level) for metric in ("precision", "recall", "map", "ndcg")}
    return MethodResult(
        name,
        name.upper(),
        means={metric: tuple(array.mean(axis=0).tolist()) for metric, array in values.items()},
        per_user=values,
        coverage=(0.1, 0.2, 0.3),
        novelty=(3.0, 4.0, 5.0),
        fit_seconds=level * 1000,
        peak_bytes=123_456_789,
        **fields,
    )


@pytest.fixture
def comparison():
    gains = tuple(Interval(-0.1, -0.12, -0.08) for _ in CUTOFFS)
    ours = method("ours", 0.25, settings={"n_components": 100})
    theirs = method("theirs", 0.15, differences=dict.fromkeys(ours.means, gains))
    failed = MethodResult("wrmf", "WRMF", failure="takes longer than the 60 s allowed")
    return Comparison(
        data=DataDescription("Ta-Feng", 24_304, 21_533, 417_246, 274_479, 99.92, "Online Grocery"),
        period="train 1 to 2, test 3",
        cutoffs=CUTOFFS,
        reference="ours",
        n_users=4,
        n_dropped=2,
        exclude_seen=True,
        seed=0,
        results=(failed, theirs, ours),
        day="2024-03-05",
        n_newcomers=1,
        n_unknown=3,
    )


def same(one, two):
    bare = [
        replace(c, results=tuple(replace(r, per_user={}) for r in c.results)) for c in (one, two)
    ]
    assert asdict(bare[0]) == asdict(bare[1])
    for a, b in zip(one.results, two.results, strict=True):
        assert a.per_user.keys() == b.per_user.keys()
        for name in a.per_user:
            np.testing.assert_array_equal(a.per_user[name], b.per_user[name])


def test_what_is_saved_is_loaded(comparison, tmp_path):
    save(comparison, tmp_path / "a")
    found = load(tmp_path / "a")
    same(found, comparison)
    assert found.result("theirs").differences["map"][1] == Interval(-0.1, -0.12, -0.08)
    assert isinstance(found.cutoffs, tuple)
    bare = load(tmp_path / "a", per_user=False)
    assert bare.result("theirs").means == found.result("theirs").means
    assert not any(result.per_user for result in bare.results)


def test_a_second_comparison_takes_the_place_of_the_first(comparison, tmp_path):
    save(comparison, tmp_path)
    other = replace(comparison, results=(method("ours", 0.5),))
    save(other, tmp_path)
    same(load(tmp_path), other)
    assert len(list(tmp_path.iterdir())) == 2


def test_damage_is_noticed(comparison, tmp_path):
    with pytest.raises(DamagedComparison, match="run `mom-pipeline compare`"):
        load(tmp_path)
    save(comparison, tmp_path)
    (arrays,) = tmp_path.glob("*.npz")
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(DamagedComparison, match=r"per-user-.* is damaged; compare again"):
        load(tmp_path)
    arrays.unlink()
    with pytest.raises(DamagedComparison, match="no whole comparison"):
        load(tmp_path)
    (tmp_path / "comparison.json").write_text("{")
    with pytest.raises(DamagedComparison, match="is damaged"):
        load(tmp_path)


def test_the_papers_tables(comparison):
    first = tables.description_table(comparison)
    assert first.columns[2:] == (
        "# of Users", "# of Items", "# of Tuples (training)", "Sparsity (training)",
        "# of Tuples (test)",
    )  # fmt: skip
    assert first.rows == (
        ("Ta-Feng", "Online Grocery", "24,304", "21,533", "417,246", "7.97×10⁻⁴", "274,479"),
    )
    second = tables.time_table(comparison)
    assert second.columns == ("Dataset", "WRMF", "THEIRS", "OURS")
    assert second.rows == (("Ta-Feng", "–", "150", "250"),)


def test_the_metrics_table_and_its_remarks(comparison):
    shown = tables.metrics_table(comparison)
    assert shown.columns[1:4] == ("Precision@20", "Recall@20", "Δ Recall [95 %]")
    failed, theirs, ours = shown.rows
    assert set(failed[1:]) == {"–"}
    assert theirs[2:5] == ("0.1500", "-100.0 [-120.0, -80.0]", "0.1500")
    assert ours[3] == "reference"
    assert {len(row) for row in shown.rows} == {len(shown.columns)}
    said = " ".join(tables.remarks(comparison))
    assert "Users measured: 4; left out: 1 without a history and 2 who took nothing new" in said
    assert "3 of the relevant pairs are of items outside of the 21,533 trained on" in said
    assert "– WRMF: takes longer than the 60 s allowed." in said
    assert "catalogue has" not in said
    assert "Recall@20: WRMF –, THEIRS 0.1500, OURS 0.2500" in tables.summary(comparison)
    every = tables.cutoff_table(comparison, "map")
    assert every.columns == ("method", "@5", "@20", "@100")
    assert every.rows[0] == ("WRMF", "–", "–", "–")


def test_wide_tables_come_in_parts(comparison):
    whole = tables.metrics_table(comparison)
    assert whole.parts(500) == [whole]
    first, *others = whole.parts(60)
    assert others
    assert all(part.columns[0] == "method" for part in (first, *others))
    assert first.columns + tuple(c for part in others for c in part.columns[1:]) == whole.columns
    assert others[-1].rows[1][-1] == whole.rows[1][-1]
    assert len(whole.parts(10)) == len(whole.columns) - 1


def test_cutoffs_beyond_the_catalogue_are_explained(comparison):
    small = replace(comparison, data=replace(comparison.data, items=30))
    (sentence,) = [said for said in tables.remarks(small) if "catalogue has" in said]
    assert sentence == (
        "The catalogue has 30 items: at the cut-offs 100 lists are shorter, and the missing "
        "positions count as misses."
    )


@pytest.mark.parametrize(
    ("converged", "sentence"),
    [
        (True, "EM: 12 iterations until the stopping rule held."),
        (False, "EM: 12 iterations, without meeting the stopping rule."),
    ],
)
def test_the_iterations_of_em_are_reported(comparison, converged, sentence):
    em = method("em", 0.2, notes={"iterations": 12, "converged": converged})
    assert sentence in tables.remarks(replace(comparison, results=(*comparison.results, em)))


def test_a_reference_without_a_result_is_explained(comparison):
    without = replace(comparison, reference="wrmf")
    assert any("the reference WRMF has no result" in said for said in tables.remarks(without))


def test_the_figure_has_a_line_for_every_method_with_a_result(comparison):
    left, right = tables.figure_2(comparison)
    for panel in (left, right):
        assert [*panel.series] == ["THEIRS", "OURS"]
        assert "n = 4 users" in panel.axes.y
        assert panel.bold == "OURS"
    np.testing.assert_allclose(left.series["OURS"][1], 0.25)
    np.testing.assert_allclose(right.series["THEIRS"][0], CUTOFFS)
