"""The paper's claims (`paper.toml`): what it says, its figure, ours, and the verdict."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mom_pipeline.bench.accuracy import PAPER, UNBIASED, line
from mom_pipeline.bench.paper import METHODS as TIMED
from mom_pipeline.bench.paper import SIZES, STATED, PaperSize
from mom_pipeline.bench.reproduction import ALGORITHM_1, Reproduction, signed
from mom_pipeline.comparison.results import Comparison
from mom_pipeline.comparison.tables import NO_VALUE, scientific, shown_cutoff

HOLDS, IN_PART, FAILS, OPEN = "holds", "holds in part", "does not hold", "not measured"
# A slope of -0.5 is 1/sqrt(N); an error that levels off has one near 0.
_FALLS, _LEVELS_OFF = -0.4, -0.3
_SUM_TOLERANCE = 0.05
_LARGEST_DISTANCE = math.sqrt(2)
_RIVALS, _OURS = ("plsi", "bpr", "wrmf"), "three-moment"
_TOY = "Measured at toy sizes only, which say nothing about this; leave out --quick."
_NO_RESULT = OPEN, "MoM or its rivals have no result."

Rows = Sequence[dict[str, Any]]
# With its reason, a sentence.
Verdict = tuple[str, str]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper."""

    title: str
    says: str  # the claim, with its place
    figure: str  # the paper's
    command: str  # measures it alone
    ours: str  # measured here
    verdict: str
    why: str  # the verdict in a sentence


def _claim(name: str, ours: str, verdict: Verdict, **measured: str) -> Claim:
    """Return a claim as `paper.toml` states it. measured: its parts in braces."""
    stated = {part: text.format(**measured) for part, text in STATED["claims"][name].items()}
    return Claim(**stated, ours=ours, verdict=verdict[0], why=verdict[1])


def claims_of(result: Reproduction) -> list[Claim]:
    """Return every claim, the most important one first; toy sizes say nothing about some."""
    rows, recovery = result.rows, result.recovery
    figures = [quality(comparison) for comparison in result.simulated]
    costs = [as_quick_as_bpr(rows), scalability(rows), million_users(rows)]
    if result.plan.is_quick:
        figures, costs = (
            [replace(claim, verdict=OPEN, why=_TOY) for claim in own] for own in (figures, costs)
        )
    exact = [convergence(recovery), weights(recovery), theorem(recovery)]
    others = [passes(rows), iterations(rows), sparsity(tuple(SIZES.values()))]
    return [*exact, *figures, *map(quality, result.logs), *costs, *others]


def convergence(recovery: dict[str, Any]) -> Claim:
    """Theorem 1: does the error fall as 1/sqrt(N)?"""
    slopes = {row["estimator"]: row["slope"] for row in recovery["slopes"]}
    errors = {name: line(recovery["points"], name) for name in (PAPER, UNBIASED)}
    first, last = errors[PAPER][0], errors[PAPER][-1]
    shown = (
        f"{name} {signed(slopes[name])} ({own[0]['error']:.3f} to {own[-1]['error']:.3f})"
        for name, own in errors.items()
    )
    verdict, why = HOLDS, "The error of the paper's own estimator falls as promised."
    if slopes[PAPER] is None:
        verdict, why = OPEN, "One number of users has no slope; measure at several."
    elif slopes[PAPER] > _FALLS:
        verdict, how = FAILS, "levels off" if slopes[PAPER] > _LEVELS_OFF else "falls more slowly"
        other = "falls as promised" if slopes[UNBIASED] <= _FALLS else "does not fall so either"
        why = (
            f"The error of the paper's own estimator {how}: XᵀX pairs every event with itself, and "
            "binary rows bend the probabilities; no number of users removes either. That of the "
            f"unbiased one, of distinct pairs and triples of counts, {other}."
        )
    users = f"{first['users']:,} to {last['users']:,} users"
    return _claim("convergence", f"{users}: {'; '.join(shown)}", (verdict, why))


def weights(recovery: dict[str, Any]) -> Claim:
    """Is pi = lambda^-2 a distribution?"""
    theirs, ours = (line(recovery["points"], e)[-1]["weight_sum"] for e in (PAPER, UNBIASED))
    verdict = HOLDS, "The sum is near 1 by the paper's own estimator."
    if abs(theirs - 1) >= _SUM_TOLERANCE:
        by_ours = "is" if abs(ours - 1) < _SUM_TOLERANCE else "is not either"
        verdict = FAILS, f"It is not 1 by the paper's own estimator, and {by_ours} by the unbiased."
    return _claim("weights", f"the paper's estimator {theirs:.3f}, unbiased {ours:.3f}", verdict)


def theorem(recovery: dict[str, Any]) -> Claim:
    """Does the bound of Theorem 1 say anything?"""
    point = line(recovery["points"], PAPER)[-1]
    bound = point["bound"]
    verdict, why = HOLDS, "The bound is below the largest error that is possible."
    if bound is None:
        verdict, why = OPEN, "The theorem is about the paper's plain sums."
    elif bound > _LARGEST_DISTANCE:
        verdict, why = IN_PART, "It is true and empty: two distributions are never further apart "
        why += f"than {_LARGEST_DISTANCE:.2f}. Agreement of halves is the figure to act on."
    shown = NO_VALUE if bound is None else format(bound, ".3g")
    ours = f"{point['users']:,} users: bound {shown}, mean L1 error {point['error']:.3f}"
    return _claim("theorem", ours, (verdict, why))


def quality(comparison: Comparison) -> Claim:
    """Figure 2: is the paper's method ahead of its rivals, by differences to Algorithm 1?"""
    c, name = shown_cutoff(comparison.cutoffs), comparison.data.name
    k, measured = comparison.cutoffs[c], [r for r in comparison.results if not r.failure]
    intervals = {r.name: r.differences["map"][c] for r in measured if r.differences}
    rivals = [own for rival, own in intervals.items() if rival in _RIVALS]
    ahead, behind = sum(own.high < 0 for own in rivals), sum(own.low > 0 for own in rivals)
    failed = "; ".join(f"{r.title}: {r.failure}" for r in comparison.results if r.failure)
    verdict = OPEN, f"There is nothing to compare. {failed}"
    if rivals:
        why = f"Of {len(rivals)} rivals Algorithm 1 is ahead of {ahead}, level with "
        why += f"{len(rivals) - ahead - behind}, behind {behind} in MAP@{k}, by intervals of 95 %."
        if own := intervals.get(_OURS):
            place = "ahead of" if own.low > 0 else "behind" if own.high < 0 else "level with"
            why += f" Three moments are {place} it."
        verdict = _share_verdict([own.low <= 0 for own in rivals]), why
    listed = ", ".join(f"{r.title} {r.means['map'][c]:.4f}" for r in measured) or "none"
    said = STATED["figure_2"]
    return _claim(
        "quality",
        f"MAP@{k}: {listed} ({comparison.n_users:,} users; {comparison.period})",
        verdict,
        data=name,
        says=next((said[title] for title in said if name.endswith(title)), said["other"]),
        reference=ALGORITHM_1,
        methods=",".join((*_RIVALS, ALGORITHM_1, _OURS)),
    )


def as_quick_as_bpr(rows: Rows) -> Claim:
    """Table 2: does MoM take about the time of BPR, at most twice?"""
    ratios = _by_size(rows, "bpr", "to_mom")
    slower = [title for title, ratio in ratios.items() if ratio < 0.5]
    verdict = _NO_RESULT
    if slower:
        verdict = FAILS, f"MoM takes more than 2 times as long at {', '.join(slower)}."
    elif ratios:
        verdict = HOLDS, f"BPR takes {_range(ratios.values())} times as long as MoM."
    return _claim("as_quick_as_bpr", _ratios("bpr", ratios), verdict, figure=_paper_ratios("bpr"))


def scalability(rows: Rows) -> Claim:
    """Table 2: do PLSI and WRMF take longer than MoM?"""
    ratios = {name: _by_size(rows, name, "to_mom") for name in ("plsi", "wrmf")}
    every = [ratio for own in ratios.values() for ratio in own.values()]
    longer = [ratio > 1 for ratio in every]
    verdict = _NO_RESULT
    if every:
        told = f"They take longer than MoM in {sum(longer)} of {len(every)} fits, {_range(every)}"
        verdict = _share_verdict(longer), f"{told} times as long."
    ours = "; ".join(_ratios(name, own) for name, own in ratios.items())
    return _claim("scalability", ours, verdict, figure="; ".join(map(_paper_ratios, ratios)))


def million_users(rows: Rows) -> Claim:
    """Abstract: does one core with 8 GB do for a million users?"""
    of_yandex = {n: _by_size(rows, "mom", n).get("Yandex") for n in ("seconds", "peak_gigabytes")}
    seconds, memory = of_yandex.values()
    if seconds is None or memory is None:
        verdict = OPEN, "Data of the size of Yandex were not measured."
        return _claim("million_users", NO_VALUE, verdict)
    verdict = (FAILS, "It takes more memory.") if memory > 8 else (HOLDS, "One core and 8 GB do.")
    return _claim("million_users", f"{seconds:,.0f} s, {memory:.1f} GB", verdict)


def passes(rows: Rows) -> Claim:
    """Abstract: are three passes over the data enough?"""
    needed = {t: n + 2 for t, n in _by_size(rows, "mom", "whitening_passes").items()}
    verdict, why = (HOLDS, "No more are needed.") if needed else (OPEN, "MoM has no result.")
    if max(needed.values(), default=0) > 3:
        verdict, why = IN_PART, "Three do where M₂ is written out, which takes up to D² cells. "
        why += "Here its eigenvectors take several passes, the tensor and the memberships one each."
    return _claim("passes", _listed(needed), (verdict, why))


def iterations(rows: Rows) -> Claim:
    """Section 4: does EM stop after 25 to 30 iterations?"""
    needed = _by_size(rows, "plsi", "iterations")
    near = [20 <= n <= 40 for n in needed.values()]
    why = f"{sum(near)} of {len(near)} runs take about as many, on simulated data."
    return _claim("iterations", _listed(needed), (_share_verdict(near) if near else OPEN, why))


def sparsity(sizes: Sequence[PaperSize]) -> Claim:
    """Table 1: do its columns agree with each other?"""
    printed = {size.title: scientific(size.sparsity) for size in sizes}
    computed = {s.title: scientific(s.n_pairs / (s.n_users * s.n_items)) for s in sizes}
    wrong = [title for title in printed if computed[title] != printed[title]]
    why = f"Tuples / (users × items) is another figure for {', '.join(wrong) or 'none'}."
    verdict = IN_PART if wrong else HOLDS
    return _claim("sparsity", _listed(computed), (verdict, why), figure=_listed(printed))


def _by_size(rows: Rows, method: str, figure: str) -> dict[str, Any]:
    """Return a figure or a note of a method by the title of the size, where it has one."""
    own = {r["size"]: {**r, **r["notes"]}.get(figure) for r in rows if r["method"] == method}
    return {title: value for title, value in own.items() if value is not None}


def _share_verdict(each: Sequence[bool]) -> str:
    return HOLDS if all(each) else IN_PART if any(each) else FAILS


def _range(ratios: Collection[float]) -> str:
    return f"{min(ratios):.1f} to {max(ratios):.1f}"


def _listed(by_size: Mapping[str, Any]) -> str:
    return ", ".join(f"{title} {value}" for title, value in by_size.items()) or NO_VALUE


def _paper_ratios(method: str) -> str:
    seconds = {size.title: size.seconds for size in SIZES.values() if method in size.seconds}
    return _ratios(method, {title: own[method] / own["mom"] for title, own in seconds.items()})


def _ratios(method: str, ratios: Mapping[str, float]) -> str:
    shown = {title: f"{ratio:.2f}" for title, ratio in ratios.items()}
    return f"{TIMED[method].title} / MoM: {_listed(shown)}"
