"""Writing values into a settings file; comments, order and spaces stay."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.files import write_text
from mom_pipeline.settings import SETTINGS_FILE, Settings, load_settings

# Log files further apart than this are not of one history: the earlier ones wait for a person.
_LONGEST_GAP = timedelta(days=366)
WRITTEN = "of the first log file; remove this comment to keep the day"


def write_values(path: Path, values: Mapping[str, Any], comment: str = "") -> None:
    """Put values, as `section.key` -> value, into a settings file, each with a comment."""
    text = path.read_bytes().decode("utf-8") if path.exists() else ""
    write_text(path, with_values(text, values, comment))


def declare_first_day(settings: Settings, days: Collection[date]) -> Settings:
    """Write the first day of the log files, where no person chose one; return the settings anew."""
    path, declared = settings.data_dir / SETTINGS_FILE, settings.pipeline.start_date
    if declared:  # by a person, unless the comment says otherwise
        text = path.read_bytes().decode("utf-8") if path.exists() else ""
        value: Any = tomlkit.parse(text).get("pipeline", {}).get("start_date")
        if WRITTEN not in getattr(getattr(value, "trivia", None), "comment", ""):
            return settings
    ordered = sorted({*days, date.fromisoformat(declared)} if declared else {*days})
    if not ordered:
        return settings
    first = ordered[_mistaken(ordered)]
    if declared and first.isoformat() >= declared:
        return settings
    write_values(path, {"pipeline.start_date": first.isoformat()}, comment=WRITTEN)
    return load_settings(settings.data_dir)


def _mistaken(days: Sequence[date]) -> int:
    """How many first days are mistakes: fewer than the others, and a year before them."""
    n_mistaken = 0
    for n_before, (day, following) in enumerate(pairwise(days), start=1):
        is_gap = following - day > _LONGEST_GAP
        if is_gap and n_before - n_mistaken < len(days) - n_before:
            n_mistaken = n_before
    return n_mistaken


def with_values(text: str, values: Mapping[str, Any], comment: str = "") -> str:
    """The text of a settings file with other values; InvalidSetting where it is not TOML."""
    try:
        document = tomlkit.parse(text)
        for dotted, value in values.items():
            name, key = dotted.rsplit(".", 1)
            section = document.setdefault(name, tomlkit.table())
            section[key] = value
            if comment:
                section[key].comment(comment)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError) as error:
        wanted = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        raise InvalidSetting(
            f"the settings file cannot be edited ({error}); set {wanted} by hand"
        ) from error
