"""Writing values into a settings file; comments, order and spaces stay."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.files import write_text


def write_values(path: Path, values: Mapping[str, Any]) -> None:
    """Put values, as `section.key` -> value, into a settings file."""
    text = path.read_bytes().decode("utf-8") if path.exists() else ""
    write_text(path, with_values(text, values))


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
