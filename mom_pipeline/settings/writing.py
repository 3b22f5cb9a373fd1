"""Writing values into a settings file; comments, order and spaces stay."""

import json
from collections.abc import Collection, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.files import write_text
from mom_pipeline.settings import SETTINGS_FILE, Settings, load_settings

# Log files further apart than this are not of one history: the earlier ones wait for a person.
_LONGEST_GAP = timedelta(days=366)


def write_values(path: Path, values: Mapping[str, Any]) -> None:
    """Put values, as `section.key` -> value, into a settings file."""
    text = path.read_bytes().decode("utf-8") if path.exists() else ""
    write_text(path, with_values(text, values))


def declare_first_day(settings: Settings, days: Collection[date]) -> Settings:
    """Write the first day of the pipeline where the settings name none, and return them anew.

    days: of the log files. A day more than a year before the next one is taken for a mistake in
    the name of a file: it is left before the first day.
    """
    if settings.pipeline.start_date or not days:
        return settings
    ordered = sorted(set(days))
    first = ordered[-1]
    for day in reversed(ordered):
        if first - day > _LONGEST_GAP:
            break
        first = day
    write_values(settings.data_dir / SETTINGS_FILE, {"pipeline.start_date": first.isoformat()})
    return load_settings(settings.data_dir)


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """Return the text of a settings file with other values.

    Raises InvalidSetting when the file is not TOML, or a section is something else there.
    """
    try:
        document = tomlkit.parse(text)
        for dotted, value in values.items():
            name, key = dotted.rsplit(".", 1)
            section = document.setdefault(name, tomlkit.table())
            section[key] = value
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError) as error:
        wanted = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        raise InvalidSetting(
            f"the settings file cannot be edited ({error}); set {wanted} by hand"
        ) from error
