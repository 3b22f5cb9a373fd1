"""What holds for all tests and for the processes that they start, before numpy is loaded.

Workers run side by side, one for each core, so BLAS gets one thread in each: two threads on half
a core wait for each other most of the time. Many short processes are started, so that modules are
compiled once and kept, whatever the environment says.
"""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
