"""New values in a settings file, everything else as it was: comments, order, spaces."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.files import write_text

_SECTION = re.compile(r"\s*\[\s*([\w.]+)\s*\]\s*(#.*)?$")
_VALUE = re.compile(r"""(?P<key>\s*(\w+)\s*=\s*)(?:"[^"]*"|'[^']*'|[^#"']*?)(?P<rest>\s*(#.*)?)$""")


def write_values(path: Path, values: Mapping[str, Any]) -> None:
    """Put values, as `section.key` -> value, into a settings file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    write_text(path, with_values(text, values))


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """Return the text of a settings file with other values.

    Raises InvalidSetting when anything else would change, as with inline tables: the file is
    then for people to edit.
    """
    found = text
    for dotted, value in values.items():
        section, key = dotted.rsplit(".", 1)
        found = _with_value(found, section, key, json.dumps(value))
    try:
        expected = tomllib.loads(text)
        for dotted, value in values.items():
            section, key = dotted.rsplit(".", 1)
            expected.setdefault(section, {})[key] = value
        unchanged = tomllib.loads(found) == expected
    except (tomllib.TOMLDecodeError, AttributeError, TypeError):
        unchanged = False
    if not unchanged:
        wanted = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        raise InvalidSetting(
            f"the settings file is not of the plain kind that can be edited; set {wanted} by hand"
        )
    return found


def _with_value(text: str, section: str, key: str, value: str) -> str:
    lines = text.splitlines(keepends=True)
    here, header = "", None
    for place, line in enumerate(lines):
        if match := _SECTION.match(line.rstrip("\r\n")):
            here = match[1]
            if here == section:
                header = place
        elif here == section and (match := _VALUE.match(line.rstrip("\r\n"))) and match[2] == key:
            end = line[len(line.rstrip("\r\n")) :]
            lines[place] = f"{match['key']}{value}{match['rest']}{end}"
            return "".join(lines)
    if header is None:
        gap = "" if not text or text.endswith("\n\n") else ("\n" if text.endswith("\n") else "\n\n")
        return f"{text}{gap}[{section}]\n{key} = {value}\n"
    if not lines[header].endswith("\n"):
        lines[header] += "\n"
    lines.insert(header + 1, f"{key} = {value}\n")
    return "".join(lines)
