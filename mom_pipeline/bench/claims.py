"""The paper's claims (`paper.toml`): what it says, its figure, ours, and the verdict."""

import math
from collections.abc import Mapping, Sequence
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

Rows = Sequence[dict[str, Any]]


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


def _claim(name: str, ours: str, verdict: str, **measured: object) -> Claim:
    """Return a claim in the words of `paper.toml`. measured: their parts in braces."""
    stated = dict(STATED["claims"][name])
    why = stated.pop("why")
    words = {**stated, "why": why.get(verdict) or why["measured"]}
    filled = {part: text.format(**measured) for part, text in words.items()}
    return Claim(**filled, ours=ours, verdict=verdict)


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
    shown = "; ".join(
        f"{name} {signed(slopes[name])} ({own[0]['error']:.3f} to {own[-1]['error']:.3f})"
        for name, own in errors.items()
    )
    first, *_, last = errors[PAPER]
    return _claim(
        "convergence",
        f"{first['users']:,} to {last['users']:,} users: {shown}",
        FAILS if slopes[PAPER] > _FALLS else HOLDS,
        how="levels off" if slopes[PAPER] > _LEVELS_OFF else "falls more slowly",
        other="falls as promised" if slopes[UNBIASED] <= _FALLS else "does not fall so either",
    )


def weights(recovery: dict[str, Any]) -> Claim:
    """Is pi = lambda^-2 a distribution?"""
    theirs, ours = (line(recovery["points"], e)[-1]["weight_sum"] for e in (PAPER, UNBIASED))
    shown = f"the paper's estimator {theirs:.3f}, unbiased {ours:.3f}"
    verdict = FAILS if abs(theirs - 1) >= _SUM_TOLERANCE else HOLDS
    by_ours = "is" if abs(ours - 1) < _SUM_TOLERANCE else "is not either"
    return _claim("weights", shown, verdict, by_ours=by_ours)


def theorem(recovery: dict[str, Any]) -> Claim:
    """Is the bound of Theorem 1 below the largest error that is possible?"""
    point = line(recovery["points"], PAPER)[-1]
    users, error, bound = point["users"], point["error"], point["bound"]
    ours = f"{users:,} users: bound {bound:.3g}, mean L1 error {error:.3f}"
    verdict = IN_PART if bound > _LARGEST_DISTANCE else HOLDS
    return _claim("theorem", ours, verdict, largest=f"{_LARGEST_DISTANCE:.2f}")


def quality(comparison: Comparison) -> Claim:
    """Figure 2: is the paper's method ahead of its rivals, by differences to Algorithm 1?"""
    c, name = shown_cutoff(comparison.cutoffs), comparison.data.name
    k, measured = comparison.cutoffs[c], [r for r in comparison.results if not r.failure]
    intervals = {r.name: r.differences["map"][c] for r in measured if r.differences}
    rivals = [own for rival, own in intervals.items() if rival in _RIVALS]
    ahead, behind = sum(own.high < 0 for own in rivals), sum(own.low > 0 for own in rivals)
    more = ""
    if own := intervals.get(_OURS):
        place = "ahead of" if own.low > 0 else "behind" if own.high < 0 else "level with"
        more = f" Three moments are {place} it."
    listed = ", ".join(f"{r.title} {r.means['map'][c]:.4f}" for r in measured) or "none"
    said = STATED["figure_2"]
    return _claim(
        "quality",
        f"MAP@{k}: {listed} ({comparison.n_users:,} users; {comparison.period})",
        _share_verdict([own.low <= 0 for own in rivals]),
        data=name,
        says=next((said[title] for title in said if name.endswith(title)), said["other"]),
        reference=ALGORITHM_1,
        methods=",".join((*_RIVALS, ALGORITHM_1, _OURS)),
        counts=f"ahead of {ahead}, level with {len(rivals) - ahead - behind}, behind {behind}",
        n=len(rivals),
        k=k,
        more=more,
        failed="; ".join(f"{r.title}: {r.failure}" for r in comparison.results if r.failure),
    )


def as_quick_as_bpr(rows: Rows) -> Claim:
    """Table 2: does MoM take about the time of BPR, at most twice?"""
    ratios = _by_size(rows, "bpr", "to_mom")
    slower = [title for title, ratio in ratios.items() if ratio < 0.5]
    words = {"slower": ", ".join(slower), "range": _range(ratios), "figure": _paper_ratios("bpr")}
    verdict = FAILS if slower else HOLDS if ratios else OPEN
    return _claim("as_quick_as_bpr", _ratios("bpr", ratios), verdict, **words)


def scalability(rows: Rows) -> Claim:
    """Table 2: do PLSI and WRMF take longer than MoM?"""
    ratios = {name: _by_size(rows, name, "to_mom") for name in ("plsi", "wrmf")}
    every = {(name, size): ratio for name, own in ratios.items() for size, ratio in own.items()}
    longer = [ratio > 1 for ratio in every.values()]
    ours = "; ".join(_ratios(name, own) for name, own in ratios.items())
    words = {"longer": sum(longer), "n": len(longer), "range": _range(every)}
    figure = "; ".join(map(_paper_ratios, ratios))
    return _claim("scalability", ours, _share_verdict(longer), figure=figure, **words)


def million_users(rows: Rows) -> Claim:
    """Abstract: does one core with 8 GB do for a million users?"""
    seconds, memory = (
        _by_size(rows, "mom", figure).get("Yandex") for figure in ("seconds", "peak_gigabytes")
    )
    if seconds is None or memory is None:
        return _claim("million_users", NO_VALUE, OPEN)
    ours = f"{seconds:,.0f} s, {memory:.1f} GB"
    return _claim("million_users", ours, FAILS if memory > 8 else HOLDS)


def passes(rows: Rows) -> Claim:
    """Abstract: are three passes over the data enough?"""
    needed = {t: n + 2 for t, n in _by_size(rows, "mom", "whitening_passes").items()}
    verdict = IN_PART if max(needed.values(), default=0) > 3 else HOLDS if needed else OPEN
    return _claim("passes", _listed(needed), verdict)


def iterations(rows: Rows) -> Claim:
    """Section 4: does EM stop after 25 to 30 iterations?"""
    needed = _by_size(rows, "plsi", "iterations")
    near = [20 <= n <= 40 for n in needed.values()]
    words = {"near": sum(near), "n": len(near)}
    return _claim("iterations", _listed(needed), _share_verdict(near), **words)


def sparsity(sizes: Sequence[PaperSize]) -> Claim:
    """Table 1: do its columns agree with each other?"""
    printed = {size.title: scientific(size.sparsity) for size in sizes}
    computed = {s.title: scientific(s.n_pairs / (s.n_users * s.n_items)) for s in sizes}
    wrong = ", ".join(title for title in printed if computed[title] != printed[title])
    words = {"wrong": wrong or "none", "figure": _listed(printed)}
    return _claim("sparsity", _listed(computed), IN_PART if wrong else HOLDS, **words)


def _by_size(rows: Rows, method: str, figure: str) -> dict[str, Any]:
    """Return a figure or a note of a method by the title of the size, where it has one."""
    own = {r["size"]: {**r, **r["notes"]}.get(figure) for r in rows if r["method"] == method}
    return {title: value for title, value in own.items() if value is not None}


def _share_verdict(each: Sequence[bool]) -> str:
    return OPEN if not each else HOLDS if all(each) else IN_PART if any(each) else FAILS


def _range(ratios: Mapping[Any, float]) -> str:
    values = ratios.values()
    return f"{min(values, default=0):.1f} to {max(values, default=0):.1f}"


def _listed(by_size: Mapping[str, Any]) -> str:
    return ", ".join(f"{title} {value}" for title, value in by_size.items()) or NO_VALUE


def _paper_ratios(method: str) -> str:
    seconds = {size.title: size.seconds for size in SIZES.values() if method in size.seconds}
    return _ratios(method, {title: own[method] / own["mom"] for title, own in seconds.items()})


def _ratios(method: str, ratios: Mapping[str, float]) -> str:
    shown = {title: f"{ratio:.2f}" for title, ratio in ratios.items()}
    return f"{TIMED[method].title} / MoM: {_listed(shown)}"
