"""Which version is the champion, and which were before: one small file, replaced in one step.

Pointer and history are the same file, so they cannot disagree. The champion is what is left
on top after replaying it: a promotion puts a version there, a rollback takes one away.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import write_text

PROMOTED, ROLLED_BACK = "promoted", "rolled back"


class DamagedPointer(MomError):
    """The file that names the champion cannot be read."""


@dataclass(frozen=True)
class Promotion:
    """One change of the champion.

    version: the champion from then on.  time: ISO, UTC.  kind: promoted or rolled back.
    """

    version: str
    time: str
    kind: str
    reason: str


def read_promotions(path: Path) -> list[Promotion]:
    """Every change of the champion, oldest first; none when there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
        return [Promotion(**entry) for entry in json.loads(text)["promotions"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedPointer(
            f"{path} does not name a champion ({error!r}); remove it and promote a version again"
        ) from error


def write_promotions(path: Path, promotions: Iterable[Promotion]) -> None:
    """Replace the file: readers see the old champion or the new one."""
    value = {"promotions": [asdict(entry) for entry in promotions]}
    write_text(path, json.dumps(value, indent=2) + "\n")


def champions(promotions: Iterable[Promotion]) -> list[str]:
    """The champion last, before it those that a rollback returns to."""
    stack: list[str] = []
    for entry in promotions:
        if entry.kind == ROLLED_BACK:
            stack.pop()
        else:
            stack.append(entry.version)
    return stack


def renamed(
    promotions: Iterable[Promotion], new_names: Mapping[str, str | None]
) -> list[Promotion]:
    """The history as if versions had always had their new names; None: never were.

    Rollbacks are resolved into the promotions that still count: a rollback whose version is
    gone has nowhere to go to.
    """
    kept: list[Promotion] = []
    for entry in promotions:
        if entry.kind == ROLLED_BACK:
            kept.pop()
        else:
            kept.append(entry)
    names = {entry.version: new_names.get(entry.version, entry.version) for entry in kept}
    found: list[Promotion] = []
    for entry in kept:
        name = names[entry.version]
        if name is not None and (not found or found[-1].version != name):
            found.append(replace(entry, version=name))
    return found
