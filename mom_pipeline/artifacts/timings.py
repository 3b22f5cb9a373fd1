"""Seconds of each asset and day, for display only."""

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from mom_pipeline.core.files import write_text

_FOLDER = "timings"


def record_seconds(data_dir: Path, asset: str, seconds: Mapping[str, float]) -> None:
    """Remember the days of a run beside those of earlier runs. seconds: day -> seconds."""
    path = data_dir / _FOLDER / f"{asset}.json"
    known = {**_read(path), **{day: round(value, 4) for day, value in seconds.items()}}
    write_text(path, json.dumps(dict(sorted(known.items())), indent=0) + "\n")


def seconds_of(data_dir: Path, day: date) -> dict[str, float]:
    """Seconds by asset, of the newest run of a day."""
    files = sorted((data_dir / _FOLDER).glob("*.json"))
    seconds = {path.stem: _read(path).get(day.isoformat()) for path in files}
    return {asset: value for asset, value in seconds.items() if value is not None}


def _read(path: Path) -> dict[str, float]:
    """What a file holds; nothing when it is missing or damaged, for it is not worth a failure."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {str(day): float(value) for day, value in content.items() if _is_number(value)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
