"""A process for one method: `python -m mom_pipeline.comparison.worker DATA TASK THREADS BYTES`.

The figures are then the method's: its memory is that of the process, and nothing that another
method left behind is in the way. The test data do not come here; only lists go back.
"""

import os
import resource
import sys
import threading
from pathlib import Path

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(data_folder: Path, task_folder: Path, n_threads: int, memory_bytes: int) -> None:
    """Answer a task; the limits stand before any library starts threads or takes memory."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if n_threads == 1:
        _hold_to_one_core()
    if memory_bytes:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))
    from mom_pipeline.comparison.fitting import answer_task

    answer_task(data_folder, task_folder)


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open as long as it lives.

    Not by `sys.stdin`: a thread that waits inside of it makes Python abort at its own end.
    """
    os.read(0, 1)
    os._exit(1)


def _hold_to_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in _THREAD_VARIABLES:
        os.environ[name] = "1"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
