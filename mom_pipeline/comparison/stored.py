"""Finding stored comparisons by their day."""

import json
from datetime import date
from pathlib import Path

from mom_pipeline.comparison.errors import DamagedComparison
from mom_pipeline.comparison.results import SUMMARY, Comparison, load


def newest_until(folder: Path, day: date) -> Comparison | None:
    """The comparison with the latest test day up to a day, or None; of several, the newest made.

    Without the users' values. Ready splits have no day, and are left out; so is what is damaged.
    """
    found = []
    for path in folder.glob(f"*/{SUMMARY}"):
        made = _day_and_time(path)
        if made is not None and made[0] and made[0] <= day.isoformat():
            found.append((*made, path.parent))
    for *_, place in sorted(found, reverse=True):
        try:
            return load(place, per_user=False)
        except DamagedComparison:
            continue
    return None


def _day_and_time(summary: Path) -> tuple[str, str] | None:
    """The day and the time of making; None where the file cannot be read."""
    try:
        comparison = json.loads(summary.read_text(encoding="utf-8"))["comparison"]
        return str(comparison["day"]), str(comparison["created"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
