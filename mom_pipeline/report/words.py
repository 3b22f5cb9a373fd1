"""The page in one sentence: how good, how stable, what to do."""

from collections.abc import Sequence

from mom_pipeline.report.data import ReportData
from mom_pipeline.report.sections import delivered, newest_by_ranking, shown_cutoff
from mom_pipeline.warehouse.evaluations import MetricsRow

# A component that moves farther in a day, in total variation, is not settled.
_MUCH_DRIFT = 0.1
_MANY_REJECTED = 0.05
_TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}


def verdict(data: ReportData) -> str:
    """Return the sentence for somebody who reads nothing else."""
    to_do = "; ".join(tasks(data)) or "nothing to do"
    text = f"{hits(data.metrics)}; {stability(data)}; {to_do}."
    return text[:1].upper() + text[1:]


def hits(rows: Sequence[MetricsRow]) -> str:
    """Return what people took of the lists, compared with a list of popular items."""
    ratio = hit_ratio(rows)
    if ratio is None:
        return "not judged yet, for want of later days"
    if ratio < 0.95:
        return f"only {ratio:.0%} of the hits of popularity"
    if ratio < 1.05:
        return "as many hits as popularity"
    whole = round(ratio)
    if abs(ratio - whole) <= 0.1 * whole and whole >= 2:
        return f"{_TIMES.get(whole, f'{whole} times')} the hits of popularity"
    return f"{ratio:.1f} times the hits of popularity"


def hit_ratio(rows: Sequence[MetricsRow]) -> float | None:
    """Return recall of the newest backtest over that of popularity; None without one."""
    if not rows:
        return None
    k, by_ranking = shown_cutoff(rows), newest_by_ranking(rows)
    recall = {n: next(r.recall for r in same if r.cutoff == k) for n, same in by_ranking.items()}
    popular = recall.pop("popularity", 0.0)
    return next(iter(recall.values())) / popular if popular and recall else None


def stability(data: ReportData) -> str:
    """Return whether chance or a day moves the components."""
    weak, moved = _weak(data), float(data.model["largest_drift"])
    if moved > _MUCH_DRIFT and len(data.history) > 1:
        return f"a component moved by {moved:.0%} in a day"
    if weak:
        return f"{weak} of {len(data.components)} components are uncertain"
    return "stable"


def tasks(data: ReportData) -> list[str]:
    """Return what somebody should do, most urgent first."""
    todo = []
    ratio = hit_ratio(data.metrics)
    if ratio is not None and ratio < 0.95:
        todo.append("keep the model in use, and see `mom-pipeline tune`")
    _, accepted, rejected, _, _ = delivered(data.deliveries)
    if rejected > _MANY_REJECTED * (accepted + rejected):
        share = rejected / (accepted + rejected)
        todo.append(f"look at the {share:.0%} of the rows that were rejected")
    if 2 * _weak(data) > len(data.components):
        todo.append("take fewer components, or wait for more days, before you read them")
    return todo


def _weak(data: ReportData) -> int:
    threshold = data.settings.evaluation.min_agreement
    return sum(component.agreement < threshold for component in data.components)
