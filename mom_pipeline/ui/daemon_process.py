"""The daemon's own process: Dagster's daemon, which ends when whoever started it is gone.

Its standard input is a pipe that the starting process keeps open and never writes to. However
that process ends, even by SIGKILL, the pipe closes, and the daemon is asked to stop in order.
"""

import os
import runpy
import signal
import sys
import threading


def _stop_when_alone() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run `python -m dagster._daemon` with the arguments of this process."""
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    runpy.run_module("dagster._daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
