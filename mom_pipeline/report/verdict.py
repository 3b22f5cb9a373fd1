"""The page in one sentence: how good, how stable, what to do."""

from collections.abc import Sequence

from mom_pipeline.core.evaluation.stability import MIN_AGREEMENT
from mom_pipeline.report.data import ReportData
from mom_pipeline.report.sections import delivered, newest_recall
from mom_pipeline.warehouse.evaluations import MetricsRow

# A component that moves farther in a day, in total variation, is not settled.
_MUCH_DRIFT, _MANY_REJECTED = 0.1, 0.05
_TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}


def verdict(data: ReportData) -> str:
    """Return the sentence for somebody who reads nothing else."""
    to_do = "; ".join(_tasks(data)) or "nothing to do"
    text = f"{hits(data.metrics)}; {_stability(data)}; {to_do}."
    return text[:1].upper() + text[1:]


def hits(rows: Sequence[MetricsRow]) -> str:
    """Return what people took of the lists, compared with a list of popular items."""
    ratio = _hit_ratio(rows)
    if ratio is None:
        return "not evaluated yet, for want of later days"
    if ratio < 0.95:
        return f"only {ratio:.0%} of the hits of popularity"
    if ratio < 1.05:
        return "as many hits as popularity"
    whole = round(ratio)
    if abs(ratio - whole) <= 0.1 * whole and whole >= 2:
        return f"{_TIMES.get(whole, f'{whole} times')} the hits of popularity"
    return f"{ratio:.1f} times the hits of popularity"


def _hit_ratio(rows: Sequence[MetricsRow]) -> float | None:
    """Return recall of the newest backtest over that of popularity; None without one."""
    recall = newest_recall(rows)[1] if rows else {}
    popular = recall.pop("popularity", 0.0)
    return next(iter(recall.values())) / popular if popular and recall else None


def _stability(data: ReportData) -> str:
    """Return whether chance or a day moves the components."""
    weak, moved = _weak(data), max(data.figures.days[-1].drift)
    if moved > _MUCH_DRIFT and len(data.figures.days) > 1:
        return f"a component moved by {moved:.0%} in a day"
    if weak:
        return f"{weak} of {len(data.components)} components are uncertain"
    return "stable"


def _tasks(data: ReportData) -> list[str]:
    """Return what somebody should do, most urgent first."""
    tasks, ratio = [], _hit_ratio(data.metrics)
    if ratio is not None and ratio < 0.95:
        tasks.append("see `mom-pipeline tune`")
    _, accepted, rejected, _, _ = delivered(data.deliveries)
    if rejected > _MANY_REJECTED * (accepted + rejected):
        share = rejected / (accepted + rejected)
        tasks.append(f"look at the {share:.0%} of the rows that were rejected")
    if 2 * _weak(data) > len(data.components):
        tasks.append("take fewer components, or wait for more days, before you read them")
    return tasks


def _weak(data: ReportData) -> int:
    return sum(component.agreement < MIN_AGREEMENT for component in data.components)
