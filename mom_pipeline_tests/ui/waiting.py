"""Waiting with a bound; on its own, for a process of the toy definitions that has to start soon."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Poll a condition; fail with its name when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
