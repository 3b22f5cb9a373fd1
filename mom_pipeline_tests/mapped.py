"""Whether arrays lie in files."""

from mmap import mmap
from typing import Any

import numpy as np


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array is a view of a file that is mapped into memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray | memoryview) and not isinstance(owner, np.memmap):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return isinstance(owner, np.memmap | mmap)
