"""Tests run side by side, one worker for each core, so BLAS gets one thread in each.

Two threads on half a core wait for each other most of the time. Set here, before numpy is loaded;
what the tests start inherits it.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
