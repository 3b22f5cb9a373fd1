"""The paper's claims one by one: what it says, its figure, ours, and the verdict.

Every verdict follows from what was measured; none is written down beforehand.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mom_pipeline.bench.paper import METHODS as TIMED
from mom_pipeline.bench.paper import SIZES, PaperSize
from mom_pipeline.bench.reproduction import ALGORITHM_1, Reproduction
from mom_pipeline.comparison.results import Comparison, Interval
from mom_pipeline.comparison.tables import scientific, shown_cutoff

PAPER, UNBIASED = "paper, binary", "unbiased, counts"
# A slope of -0.5 is 1/sqrt(N); an error that levels off has one near 0.
_FALLS, _LEVELS_OFF = -0.4, -0.3
_SUM_TOLERANCE = 0.05
_LARGEST_DISTANCE = math.sqrt(2)
_PASSES = 3
_MEMORY = 8e9
_ITERATIONS = (20, 40)
_SIMILAR = 2.0
_RIVALS, _OURS = ("plsi", "bpr", "wrmf"), "three-moment"
_PLACES = ("ahead of", "level with", "behind")
_MILLION = "yandex"
_TOY = "Measured at toy sizes only, which say nothing about this; leave out --quick."
# Section 4 of the paper, about its Figure 2.
_FIGURE_2 = {
    "Ta-Feng": "BPR has the highest MAP, MoM the best precision–recall curve",
    "Million Song": "MoM is best in both, until WRMF catches up at long lists",
    "Yandex": "MoM is ahead of BPR and PLSI",
}


class Verdict(StrEnum):
    """What the measurement says about a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    OPEN = "not measured"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    says: the claim, with its place.  figure: the paper's.  ours: measured here.
    why: the verdict in a sentence.  command: measures it alone.
    """

    title: str
    says: str
    figure: str
    ours: str
    verdict: Verdict
    why: str
    command: str


def claims_of(result: Reproduction) -> list[Claim]:
    """Return every claim, the most important one first."""
    return [
        convergence(result.recovery),
        weights(result.recovery),
        theorem(result.recovery),
        *(quality(c, _said_of(c), toy=result.plan.is_quick) for c in result.simulated),
        *(quality(c, _CLAIM_OF_ALL) for c in result.logs),
        as_quick_as_bpr(result),
        scalability(result),
        million_users(result),
        passes(result.times),
        iterations(result.times),
        sparsity(tuple(SIZES.values())),
    ]


def convergence(recovery: dict[str, Any]) -> Claim:
    """Theorem 1: does the error fall as 1/sqrt(N)?"""
    theirs, ours = recovery["slopes"][PAPER], recovery["slopes"][UNBIASED]
    if theirs is None or ours is None:
        verdict, why = Verdict.OPEN, "One number of users has no slope; measure at several."
    elif theirs <= _FALLS:
        verdict, why = Verdict.HOLDS, "The error of the paper's own estimator falls as promised."
    else:
        levels = "levels off" if theirs > _LEVELS_OFF else "falls more slowly"
        verdict = Verdict.FAILS
        why = (
            f"The paper's own estimator {levels}: XᵀX pairs every event with itself, and binary "
            "rows bend the probabilities; no number of users removes either. "
        )
        why += (
            "The unbiased estimator, of distinct pairs and triples of counts, does not."
            if ours <= _FALLS
            else "Nor does the error of the unbiased one fall as promised at these sizes."
        )
    first, last = _ends(recovery, PAPER), _ends(recovery, UNBIASED)
    users = f"{first[0]['n_users']:,} to {first[1]['n_users']:,} users"
    return Claim(
        "The error falls as 1/√N",
        "Theorem 1: with probability 1 − δ the error of O and of π is at most a constant / √N, and "
        "the method is globally convergent (abstract).",
        "log-log slope −0.5",
        f"{users}: the paper's estimator {signed(theirs)} ({first[0]['error']:.3f} to "
        f"{first[1]['error']:.3f}), unbiased {signed(ours)} ({last[0]['error']:.3f} to "
        f"{last[1]['error']:.3f})",
        verdict,
        why,
        "mom-pipeline bench recovery",
    )


def weights(recovery: dict[str, Any]) -> Claim:
    """Is pi = lambda^-2 a distribution?"""
    sums = {label: _ends(recovery, label)[1]["weight_sum"] for label in (PAPER, UNBIASED)}
    near = {label: abs(value - 1) < _SUM_TOLERANCE for label, value in sums.items()}
    verdict = Verdict.HOLDS if near[PAPER] else Verdict.FAILS
    why = "The sum is near 1 by the paper's own estimator."
    if not near[PAPER]:
        by_ours = "is" if near[UNBIASED] else "is not either"
        why = f"It is not 1 by the paper's own estimator, and {by_ours} by the unbiased one."
    return Claim(
        "π = λ⁻²",
        "Section 2.2: the eigenvalues of the whitened tensor give the weights, π_k = λ_k⁻², which "
        "are probabilities and sum to 1.",
        "Σλ⁻² = 1",
        f"the paper's estimator {sums[PAPER]:.3f}, unbiased {sums[UNBIASED]:.3f}",
        verdict,
        why,
        "mom-pipeline bench recovery",
    )


def theorem(recovery: dict[str, Any]) -> Claim:
    """Does the bound of Theorem 1 say anything?"""
    point = _ends(recovery, PAPER)[1]
    bound = point["bound"]
    tells = bound is not None and bound <= _LARGEST_DISTANCE
    verdict = Verdict.HOLDS if tells else Verdict.IN_PART
    why = "The bound is below the largest error that is possible, and so is the error."
    if bound is None:
        verdict, why = Verdict.OPEN, "The theorem is about the paper's plain sums."
    elif not tells:
        why = (
            "It is true and empty: two distributions are never further apart than "
            f"{_LARGEST_DISTANCE:.2f}. Agreement of halves is the figure to act on."
        )
    return Claim(
        "The bound of Theorem 1",
        "Theorem 1: ‖μ − μ̂‖ is at most a stated multiple of ε / √N.",
        "no figure is given",
        f"{point['n_users']:,} users: bound {'–' if bound is None else format(bound, '.3g')}, "
        f"mean L1 error {point['error']:.3f}",
        verdict,
        why,
        'mom-pipeline report, of a model with estimator = "paper"',
    )


_CLAIM_OF_ALL = "MoM is competitive with PLSI, BPR and WRMF on data of any domain (conclusion)"


def _said_of(comparison: Comparison) -> str:
    return next(
        (said for title, said in _FIGURE_2.items() if comparison.data.name.endswith(title)),
        _CLAIM_OF_ALL,
    )


def quality(comparison: Comparison, said: str, *, toy: bool = False) -> Claim:
    """Figure 2: is the paper's method ahead of its rivals? toy: the data are too few to tell.

    comparison: with differences to Algorithm 1.
    """
    c = shown_cutoff(comparison.cutoffs)
    k = comparison.cutoffs[c]
    measured = {r.name: r for r in comparison.results if not r.failure}
    against = {
        name: _place(r.differences["map"][c]) for name, r in measured.items() if r.differences
    }
    rivals = [against[name] for name in _RIVALS if name in against]
    if toy:
        verdict, why = Verdict.OPEN, _TOY
    elif rivals:
        verdict = _share_verdict(len(rivals) - rivals.count("behind"), len(rivals))
        places = (f"{place} {rivals.count(place)}" for place in _PLACES)
        why = (
            f"Of {len(rivals)} rivals Algorithm 1 is {', '.join(places)} in MAP@{k}, by paired "
            "intervals of 95 %."
        )
        if _OURS in against:
            turned = dict(zip(_PLACES, reversed(_PLACES), strict=True))
            why += f" Three moments are {turned[against[_OURS]]} it."
    else:
        failed = (f"{r.title}: {r.failure}" for r in comparison.results if r.failure)
        verdict, why = Verdict.OPEN, f"There is nothing to judge by. {'; '.join(failed)}"
    listed = ", ".join(f"{r.title} {r.means['map'][c]:.4f}" for r in measured.values())
    return Claim(
        f"Figure 2: {comparison.data.name}",
        f"Section 4: {said}.",
        "curves without numbers",
        f"MAP@{k}: {listed or 'none'} ({comparison.n_users:,} users; {comparison.period})",
        verdict,
        why,
        f"mom-pipeline compare --train-until DAY --reference {ALGORITHM_1} "
        f"--methods {','.join((*_RIVALS, ALGORITHM_1, _OURS))}",
    )


def _place(difference: Interval) -> str:
    """Return where Algorithm 1 is, from the difference of another method to it."""
    return _PLACES[0] if difference.high < 0 else _PLACES[2] if difference.low > 0 else _PLACES[1]


def as_quick_as_bpr(result: Reproduction) -> Claim:
    """Table 2: does MoM take about the time of BPR?"""
    ratios = _ratios(result.times, "bpr")
    verdict, why = Verdict.OPEN, _TOY
    if not result.plan.is_quick and ratios:
        slower = [title for title, ratio in ratios.items() if ratio < 1 / _SIMILAR]
        least, most = min(ratios.values()), max(ratios.values())
        verdict = Verdict.FAILS if slower else Verdict.HOLDS
        why = (
            f"MoM takes more than {_SIMILAR:g} times as long at {', '.join(slower)}."
            if slower
            else f"BPR takes {least:.1f} to {most:.1f} times as long as MoM."
        )
    return Claim(
        "MoM takes the time of BPR",
        "Table 2 and section 4: MoM takes similar time as BPR.",
        _listed({s.title: _paper_ratio(s, "bpr") for s in SIZES.values()}, "BPR / MoM"),
        _listed(ratios, "BPR / MoM"),
        verdict,
        why,
        "mom-pipeline bench paper --methods mom,bpr --threads one",
    )


def scalability(result: Reproduction) -> Claim:
    """Table 2: do PLSI and WRMF take longer than MoM?"""
    ratios = {name: _ratios(result.times, name) for name in ("plsi", "wrmf")}
    every = [ratio for own in ratios.values() for ratio in own.values()]
    verdict, why = Verdict.OPEN, _TOY
    if not result.plan.is_quick and every:
        n_longer = sum(ratio > 1 for ratio in every)
        verdict = _share_verdict(n_longer, len(every))
        why = (
            f"They take longer than MoM in {n_longer} of {len(every)} fits, "
            f"{min(every):.1f} to {max(every):.1f} times as long."
        )
    paper = {n: {s.title: _paper_ratio(s, n) for s in SIZES.values()} for n in ratios}
    return Claim(
        "PLSI and WRMF lack the scalability",
        "Table 2 and conclusion: PLSI and WRMF clearly lack the scalability of MoM; WRMF did not "
        "finish on Yandex within a day.",
        "; ".join(_listed(own, f"{TIMED[name].title} / MoM") for name, own in paper.items()),
        "; ".join(_listed(own, f"{TIMED[name].title} / MoM") for name, own in ratios.items()),
        verdict,
        why,
        "mom-pipeline bench paper --methods mom,plsi,wrmf --threads one",
    )


def million_users(result: Reproduction) -> Claim:
    """Abstract: does one core with 8 GB do for a million users?"""
    size = next((s for s in result.times["sizes"] if s["name"] == _MILLION), None)
    row = None if size is None else _row(size, "mom")
    ours, verdict, why = "–", Verdict.OPEN, "Data of the size of Yandex were not measured."
    if row is not None and row["seconds"] is not None and not result.plan.is_quick:
        ours = f"{row['seconds']:,.0f} s, {row['peak_bytes'] / 1e9:.1f} GB"
        fits = row["peak_bytes"] <= _MEMORY
        verdict = Verdict.HOLDS if fits else Verdict.FAILS
        why = "One core and less memory do." if fits else "It takes more memory."
    return Claim(
        "A million users on one core with 8 GB",
        "Abstract: the method scales to millions of users on a single core and 8 GB.",
        f"{SIZES[_MILLION].paper_seconds['mom']:,.0f} s, 8 GB",
        ours,
        verdict,
        why,
        "mom-pipeline bench paper --sizes yandex --methods mom --threads one",
    )


def passes(times: dict[str, Any]) -> Claim:
    """Abstract: are three passes over the data enough?"""
    taken = {
        size["title"]: row["notes"]["whitening_passes"] + 2
        for size in times["sizes"]
        if (row := _row(size, "mom")) is not None and "whitening_passes" in row["notes"]
    }
    verdict, why = Verdict.OPEN, "MoM has no result."
    if taken:
        most = max(taken.values())
        verdict = Verdict.HOLDS if most <= _PASSES else Verdict.IN_PART
        why = (
            "No more are taken."
            if most <= _PASSES
            else "Three do where M₂ is written out, which takes up to D² cells. Here it is not: "
            "its eigenvectors take several passes, the tensor and the memberships one each."
        )
    return Claim(
        "Three passes over the data",
        "Abstract and Algorithm 1: all parameters are extracted in three passes over the data.",
        "3",
        ", ".join(f"{title} {n}" for title, n in taken.items()) or "–",
        verdict,
        why,
        "mom-pipeline bench paper --methods mom --json",
    )


def iterations(times: dict[str, Any]) -> Claim:
    """Section 4: does EM stop after 25 to 30 iterations?"""
    low, high = _ITERATIONS
    taken = {
        size["title"]: row["notes"]["iterations"]
        for size in times["sizes"]
        if (row := _row(size, "plsi")) is not None and "iterations" in row["notes"]
    }
    verdict, why = Verdict.OPEN, "PLSI has no result."
    if taken:
        near = [low <= n <= high for n in taken.values()]
        verdict = _share_verdict(sum(near), len(near))
        why = f"{sum(near)} of {len(near)} runs take about as many, on simulated data."
    return Claim(
        "PLSI stops after 25 to 30 iterations",
        "Section 4: EM until the log-likelihood grows by less than a thousandth takes around "
        "25 to 30 iterations on each data set.",
        "25 to 30",
        ", ".join(f"{title} {n}" for title, n in taken.items()) or "–",
        verdict,
        why,
        "mom-pipeline bench paper --methods plsi --json",
    )


def sparsity(sizes: Sequence[PaperSize]) -> Claim:
    """Table 1: do its columns agree with each other?"""
    computed = {size.title: size.n_pairs / (size.n_users * size.n_items) for size in sizes}
    wrong = [s.title for s in sizes if scientific(computed[s.title]) != scientific(s.sparsity)]
    verdict = Verdict.HOLDS if not wrong else Verdict.IN_PART
    return Claim(
        "Table 1: sparsity",
        "Table 1 gives users, items, tuples and sparsity, the share of cells that are filled.",
        ", ".join(f"{size.title} {scientific(size.sparsity)}" for size in sizes),
        ", ".join(f"{title} {scientific(value)}" for title, value in computed.items()),
        verdict,
        f"Tuples / (users × items) is another figure for {', '.join(wrong)}."
        if wrong
        else "The columns agree.",
        "by hand: tuples / (users × items)",
    )


def _ends(recovery: dict[str, Any], label: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the points of the fewest and of the most users."""
    line = [p for p in recovery["points"] if f"{p['estimator']}, {p['data']}" == label]
    return line[0], line[-1]


def _share_verdict(n_true: int, n: int) -> Verdict:
    return Verdict.HOLDS if n_true == n else Verdict.IN_PART if n_true else Verdict.FAILS


def _row(size: dict[str, Any], method: str) -> dict[str, Any] | None:
    return next((row for row in size["rows"] if row["method"] == method), None)


def _ratios(times: dict[str, Any], method: str) -> dict[str, float]:
    """Return seconds of a method by those of MoM, by size; a fit that failed is left out."""
    rows = {size["title"]: _row(size, method) for size in times["sizes"]}
    return {
        title: row["to_mom"]
        for title, row in rows.items()
        if row is not None and row["to_mom"] is not None
    }


def _paper_ratio(size: PaperSize, method: str) -> float | None:
    seconds = size.paper_seconds.get(method)
    return None if seconds is None else seconds / size.paper_seconds["mom"]


def _listed(ratios: dict[str, Any], what: str) -> str:
    texts = [f"{title} {'–' if r is None else format(r, '.2f')}" for title, r in ratios.items()]
    return f"{what}: {', '.join(texts) or '–'}"


def signed(slope: float | None) -> str:
    """Return a slope with its sign, a dash where there is none."""
    return "–" if slope is None else f"{slope:+.2f}".replace("-", "−")
