"""The verdicts follow from what was measured: other figures, another verdict."""

from dataclasses import replace

import pytest

from mom_pipeline.bench import claims
from mom_pipeline.bench.claims import FAILS, HOLDS, IN_PART, OPEN
from mom_pipeline.bench.paper import SIZES
from mom_pipeline.bench.reproduction import Plan, Reproduction
from mom_pipeline.comparison.results import Comparison, DataDescription, Interval, MethodResult


def recovery(paper=-0.05, unbiased=-0.48, *, sums=(1.1, 1.0), bound=900.0):
    slopes = {claims.PAPER: paper, claims.UNBIASED: unbiased}
    points = [
        {"estimator": label, "users": n, "error": error, "weight_sum": weight_sum, "bound": bound}
        for label, weight_sum in zip(slopes, sums, strict=True)
        for n, error in ((1_000, 0.4), (16_000, 0.1))
    ]
    return {
        "slopes": [{"estimator": label, "slope": slope} for label, slope in slopes.items()],
        "points": points,
    }


@pytest.mark.parametrize(
    ("claim", "measured", "verdict", "ours"),
    [
        (claims.convergence, {}, FAILS, "1,000 to 16,000 users: "),
        (claims.convergence, {"paper": -0.35}, FAILS, "paper, binary −0.35 (0.400 to 0.100)"),
        (claims.convergence, {"unbiased": -0.1}, FAILS, "unbiased, counts −0.10"),
        (claims.convergence, {"paper": -0.47}, HOLDS, "−0.47"),
        (claims.weights, {"sums": (1.10, 1.00)}, FAILS, "1.100, unbiased 1.000"),
        (claims.weights, {"sums": (1.01, 1.00)}, HOLDS, "1.010"),
        (claims.theorem, {"bound": 900.0}, IN_PART, "bound 900, mean L1 error 0.100"),
        (claims.theorem, {"bound": 0.9}, HOLDS, "bound 0.9"),
    ],
)
def test_the_error_the_weights_and_the_bound_of_theorem_1(claim, measured, verdict, ours):
    found = claim(recovery(**measured))
    assert found.verdict == verdict
    assert ours in found.ours


def timed(method, to_mom=1.0, *, seconds=10.0, peak=2.0, size="Yandex", **notes):
    figures = {"seconds": seconds, "to_mom": to_mom, "peak_gigabytes": peak}
    return {"size": size, "method": method, "notes": notes, **figures}


@pytest.mark.parametrize(
    ("claim", "rows", "verdict", "ours"),
    [
        (claims.as_quick_as_bpr, [timed("bpr", 0.6)], HOLDS, "BPR / MoM: Yandex 0.60"),
        (claims.as_quick_as_bpr, [timed("bpr", 0.4)], FAILS, "Yandex 0.40"),
        (claims.scalability, [timed("plsi", 5.0), timed("wrmf", 7.0)], HOLDS, "Yandex 7.00"),
        (claims.scalability, [timed("plsi", 0.9), timed("wrmf", 7.0)], IN_PART, "Yandex 0.90"),
        (claims.scalability, [timed("plsi", 0.9), timed("wrmf", 0.5)], FAILS, "Yandex 0.50"),
        (claims.million_users, [timed("mom", peak=2.0)], HOLDS, "10 s, 2.0 GB"),
        (claims.million_users, [timed("mom", peak=9.0)], FAILS, "10 s, 9.0 GB"),
        (claims.passes, [timed("mom", whitening_passes=1)], HOLDS, "Yandex 3"),
        (claims.passes, [timed("mom", whitening_passes=10)], IN_PART, "Yandex 12"),
        (claims.iterations, [timed("plsi", iterations=27)], HOLDS, "Yandex 27"),
        (claims.iterations, [timed("plsi", iterations=90)], FAILS, "Yandex 90"),
    ],
)
def test_table_2(claim, rows, verdict, ours):
    found = claim([timed("mom"), *rows])
    assert found.verdict == verdict
    assert ours in found.ours
    failed = [timed(row["method"], None, seconds=None, peak=None, size="Ta-Feng") for row in rows]
    assert claim(failed).verdict == OPEN, "a method without a result has no verdict"


def test_toy_sizes_say_nothing_about_time_and_order():
    rows = [timed(method, 9.0) for method in ("mom", "bpr", "plsi", "wrmf")]
    made = comparison(plsi=(-0.2, -0.1))
    full = Reproduction(Plan(), recovery(), rows, (made,), (made,))
    shown = [claims.claims_of(replace(full, plan=Plan(shrink=by))) for by in (1, 20)]
    assert shown[0][0].title == "The error falls as 1/√N", "the headline comes first"
    changed = [a.title for a, b in zip(*shown, strict=True) if a.verdict != b.verdict]
    assert changed == [
        "Figure 2: simulated, size of Ta-Feng",
        "MoM takes the time of BPR",
        "PLSI and WRMF lack the scalability",
        "A million users on one core with 8 GB",
    ]


def test_the_sparsity_of_table_1_is_computed():
    claim = claims.sparsity(tuple(SIZES.values()))
    assert claim.verdict == IN_PART
    assert claim.why.endswith("for Ta-Feng.")
    right = replace(SIZES["tafeng"], sparsity=7.97e-4)
    assert claims.sparsity([right]).verdict == HOLDS


def comparison(name="simulated, size of Ta-Feng", **ends):
    """Methods with the ends of their interval to Algorithm 1, at cut-off 20; None: it failed."""
    results = [MethodResult("mom-algorithm-1", "A1", means={"map": (0.1, 0.2)})]
    for method, interval in ends.items():
        result = MethodResult(method, method.upper(), failure="needs 12 GB")
        if interval is not None:
            either = (Interval(0.5, 0.4, 0.6), Interval(sum(interval) / 2, *interval))
            result = replace(
                result, failure="", means={"map": (0.1, 0.3)}, differences={"map": either}
            )
        results.append(result)
    data = DataDescription(name, 10, 10, 50, 20)
    return Comparison(data, "by days", (5, 20), "A1", 10, 0, True, 0, tuple(results))


AHEAD, LEVEL, BEHIND = (-0.2, -0.1), (-0.3, 0.1), (0.1, 0.2)


@pytest.mark.parametrize(
    ("ends", "verdict", "words"),
    [
        ({"plsi": LEVEL, "bpr": AHEAD}, HOLDS, "ahead of 1, level with 1, behind 0 in MAP@20"),
        ({"plsi": BEHIND, "bpr": AHEAD}, IN_PART, "ahead of 1, level with 0, behind 1"),
        ({"plsi": BEHIND, "bpr": None}, FAILS, "Of 1 rivals"),
        ({"plsi": None}, OPEN, "PLSI: needs 12 GB"),
        ({"plsi": AHEAD, "three-moment": BEHIND}, HOLDS, "Three moments are ahead of it"),
        ({"plsi": AHEAD, "three-moment": AHEAD}, HOLDS, "Three moments are behind it"),
    ],
)
def test_figure_2_is_decided_by_the_interval_of_map_at_20(ends, verdict, words):
    for name, is_the_papers in (("simulated, size of Ta-Feng", True), ("a shop", False)):
        claim = claims.quality(comparison(name, **ends))
        assert claim.verdict == verdict
        assert words in claim.why
        assert ("BPR has the highest MAP" in claim.says) == is_the_papers
        assert "A1 0.2000" in claim.ours
