"""The verdicts follow from what was measured: other figures, another verdict."""

import re
from dataclasses import replace

import pytest

from mom_pipeline.bench import claims
from mom_pipeline.bench.claims import FAILS, HOLDS, IN_PART, OPEN
from mom_pipeline.bench.paper import SIZES
from mom_pipeline.bench.reproduction import Plan, Reproduction
from mom_pipeline.comparison.results import (
    Comparison,
    DataDescription,
    Interval,
    MethodResult,
)


def recovery(paper=-0.05, unbiased=-0.48, *, sums=(1.1, 1.0), bound=900.0):
    slopes = {claims.PAPER: paper, claims.UNBIASED: unbiased}
    points = [
        {
            "estimator": label,
            "users": users,
            "error": error,
            "weight_sum": weight_sum,
            "bound": bound,
        }
        for label, weight_sum in zip(slopes, sums, strict=True)
        for users, error in ((1_000, 0.4), (16_000, 0.1))
    ]
    return {
        "slopes": [{"estimator": label, "slope": slope} for label, slope in slopes.items()],
        "points": points,
    }


def timed(method, to_mom=1.0, *, seconds=10.0, peak=2.0, size="Yandex", **notes):
    figures = {"seconds": seconds, "to_mom": to_mom, "peak_gigabytes": peak}
    return {"size": size, "method": method, "notes": notes, **figures}


def measured(*rows, plan=None):
    return Reproduction(plan or Plan(), recovery(), {"rows": list(rows)}, (), ())


@pytest.mark.parametrize(
    ("paper", "unbiased", "verdict", "words"),
    [
        (-0.05, -0.48, FAILS, "levels off: .* unbiased estimator, .* does not"),
        (-0.35, -0.48, FAILS, "falls more slowly"),
        (-0.05, -0.10, FAILS, "Nor does the error of the unbiased one"),
        (-0.47, -0.48, HOLDS, "falls as promised"),
        (None, None, OPEN, "several"),
    ],
)
def test_convergence_is_about_the_papers_own_estimator(paper, unbiased, verdict, words):
    claim = claims.convergence(recovery(paper, unbiased))
    assert claim.verdict == verdict
    assert re.search(words, claim.why)
    assert "1,000 to 16,000 users" in claim.ours


@pytest.mark.parametrize(
    ("sums", "verdict", "words"),
    [
        ((1.10, 1.00), FAILS, "and is by the unbiased"),
        ((1.01, 1.00), HOLDS, "near 1"),
        ((1.10, 0.80), FAILS, "is not either"),
    ],
)
def test_weights_are_those_of_a_distribution_or_not(sums, verdict, words):
    claim = claims.weights(recovery(sums=sums))
    assert claim.verdict == verdict
    assert words in claim.why


@pytest.mark.parametrize(
    ("bound", "verdict"), [(900.0, IN_PART), (1.5, IN_PART), (0.9, HOLDS), (None, OPEN)]
)
def test_a_bound_above_any_error_is_empty(bound, verdict):
    assert claims.theorem(recovery(bound=bound)).verdict == verdict


@pytest.mark.parametrize(("to_mom", "verdict"), [(16.0, HOLDS), (0.6, HOLDS), (0.4, FAILS)])
def test_as_quick_as_bpr(to_mom, verdict):
    claim = claims.as_quick_as_bpr([timed("mom"), timed("bpr", to_mom)])
    assert claim.verdict == verdict
    assert claim.ours == f"BPR / MoM: Yandex {to_mom:.2f}"
    assert "Ta-Feng 0.90" in claim.figure


@pytest.mark.parametrize(
    ("plsi", "wrmf", "verdict"), [(5.0, 7.0, HOLDS), (0.9, 7.0, IN_PART), (0.9, 0.5, FAILS)]
)
def test_scalability_of_the_rivals(plsi, wrmf, verdict):
    rows = [timed("mom"), timed("plsi", plsi), timed("wrmf", wrmf)]
    assert claims.scalability(rows).verdict == verdict


@pytest.mark.parametrize(("peak", "verdict"), [(2.0, HOLDS), (9.0, FAILS)])
def test_a_million_users(peak, verdict):
    assert claims.million_users([timed("mom", peak=peak)]).verdict == verdict


def test_toy_sizes_say_nothing_about_time_and_order():
    rows = [timed(method, 9.0) for method in ("mom", "bpr", "plsi", "wrmf")]
    for claim in (claims.as_quick_as_bpr, claims.scalability, claims.million_users):
        assert claim(rows, toy=True).verdict == OPEN
    better = comparison(plsi=(-0.2, -0.1))
    result = replace(measured(*rows, plan=Plan(shrink=20)), simulated=(better,), logs=(better,))
    figures = [c for c in claims.claims_of(result) if c.title.startswith("Figure 2")]
    assert [c.verdict for c in figures] == [OPEN, HOLDS]


def test_a_method_without_a_result_has_no_verdict():
    failed = [timed("mom", None, seconds=None, peak=None, size="Ta-Feng")]
    for claim in (
        claims.as_quick_as_bpr,
        claims.scalability,
        claims.million_users,
        claims.passes,
        claims.iterations,
    ):
        assert claim(failed).verdict == OPEN


@pytest.mark.parametrize(("whitening", "verdict"), [(1, HOLDS), (10, IN_PART)])
def test_passes_over_the_data(whitening, verdict):
    claim = claims.passes([timed("mom", whitening_passes=whitening)])
    assert claim.verdict == verdict
    assert claim.ours == f"Yandex {whitening + 2}"


@pytest.mark.parametrize(("n", "verdict"), [(27, HOLDS), (90, FAILS)])
def test_iterations_of_plsi(n, verdict):
    assert claims.iterations([timed("plsi", iterations=n)]).verdict == verdict


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
            low, high = interval
            either = (Interval(0.5, 0.4, 0.6), Interval((low + high) / 2, low, high))
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
        ({"plsi": AHEAD, "bpr": AHEAD}, HOLDS, "ahead of 2, level with 0, behind 0 in MAP@20"),
        ({"plsi": LEVEL, "bpr": AHEAD}, HOLDS, "ahead of 1, level with 1, behind 0"),
        ({"plsi": BEHIND, "bpr": AHEAD}, IN_PART, "ahead of 1, level with 0, behind 1"),
        ({"plsi": BEHIND, "bpr": None}, FAILS, "Of 1 rivals"),
        ({"plsi": None}, OPEN, "PLSI: needs 12 GB"),
        ({"plsi": AHEAD, "three-moment": BEHIND}, HOLDS, "Three moments are ahead of it"),
        ({"plsi": AHEAD, "three-moment": AHEAD}, HOLDS, "Three moments are behind it"),
    ],
)
def test_figure_2_is_decided_by_the_interval_of_map_at_20(ends, verdict, words):
    for one in (comparison(**ends), comparison("a shop", **ends)):
        result = replace(measured(timed("mom")), simulated=(one,))
        (claim,) = (c for c in claims.claims_of(result) if c.title.startswith("Figure 2"))
        assert claim.verdict == verdict
        assert words in claim.why
        assert ("BPR has the highest MAP" in claim.says) == ("Ta-Feng" in claim.title)
        assert "A1 0.2000" in claim.ours


def test_the_headline_comes_first():
    first, *_ = claims.claims_of(measured(timed("mom")))
    assert first.title == "The error falls as 1/√N"
