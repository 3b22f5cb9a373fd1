"""The sha256 of files that were read before and have not changed since.

A file whose name, size, inode and times are those of an earlier look has the same bytes, except
where it was changed within one step of the clock of the file system; such a file is read again.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mom_pipeline.core.files import sha256_of, write_text
from mom_pipeline.settings import Settings

HashOf = Callable[[Path], str]
# The clock of a file system runs in steps; a file changed this long before it was read was not
# changed since.
CLOCK_STEP_SECONDS = 1.0
_FILE = "known_hashes.json"


@contextmanager
def known_hashes(settings: Settings) -> Iterator[HashOf]:
    """Yield `sha256_of` for files, which reads only those that it does not know yet.

    What it learns is kept for the next time, with the names of the files that were asked for.
    """
    path = settings.scratch_dir / _FILE
    known, asked = _read(path), {}

    def hash_of(file: Path) -> str:
        status = file.stat()
        times = status.st_mtime_ns, status.st_ctime_ns
        look = f"{status.st_size} {status.st_ino} {times[0]} {times[1]}"
        seen, sha256 = known.get(str(file), ("", ""))
        if seen != look:
            settled = max(times) / 1e9 + CLOCK_STEP_SECONDS < time.time()
            sha256 = sha256_of(file)
            if not settled:
                return sha256
        asked[str(file)] = look, sha256
        return sha256

    yield hash_of
    if asked.items() - known.items():
        with suppress(OSError):  # who may only read has to read the files
            write_text(path, json.dumps(asked, indent=0) + "\n")


def _read(path: Path) -> dict[str, tuple[str, str]]:
    """What an earlier look left; nothing when it is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): (str(look), str(sha256)) for name, (look, sha256) in content.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
