"""When, where and with which libraries a comparison was run."""

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mom_pipeline.core.threads import available_cores

_LIBRARIES = ("mom-pipeline", "numpy", "scipy", "implicit")


def surroundings() -> dict[str, Any]:
    """Return the time, the machine in words, and versions by library."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{available_cores()} cores of {_processor()}, {memory:.0f} GB",
        "versions": versions(_LIBRARIES),
    }


def _processor() -> str:
    """Return the name of the processor, or at least its kind."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the version of Python and of every library that is installed."""
    found = {"python": platform.python_version()}
    for name in libraries:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
