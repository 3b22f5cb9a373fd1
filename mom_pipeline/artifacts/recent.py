"""Small arrays that were just written or read, so that a run reads each only once.

On a small day most of reading is opening files. What is handed out cannot be written to, and a
file that has changed in any way since is read, and checked, again. Large arrays are left to the
disk; of these it is remembered that their files were checked.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import RLock

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.core.types import Array

# A run computes one asset of all its days after another: what four weeks take should fit, in a
# sixteenth of the memory.
_LARGEST = 32_000_000
_ALL_TOGETHER = min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 16, 1_000_000_000)
_VERSIONS = 10_000

Arrays = dict[str, Array | csr_array]
_Look = tuple[tuple[str, int, int], ...]


class RecentArrays:
    """The arrays of the newest artifacts of a process, by the folder of their version."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._kept: OrderedDict[Path, tuple[_Look, Arrays]] = OrderedDict()
        self._bytes = 0
        self._checked: OrderedDict[Path, _Look] = OrderedDict()

    def check(self, version: Path, check_files: Callable[[], None]) -> None:
        """Check the files of a version, unless that was done and they are the same since."""
        look = _look(version)
        if look and self._checked.get(version) == look:
            return
        check_files()
        self.note_checked(version, look)

    def note_checked(self, version: Path, look: _Look | None = None) -> None:
        """Remember that the files of a version are sound as they are, or as an earlier look was."""
        with self._lock:
            self._checked[version] = _look(version) if look is None else look
            while len(self._checked) > _VERSIONS:
                self._checked.popitem(last=False)

    def get(self, version: Path) -> Arrays | None:
        """The arrays of a version, as they are read; None when they are not here."""
        with self._lock:
            look, arrays = self._kept.get(version, ((), {}))
            if not look or look != _look(version):
                self._drop(version)
                return None
            self._kept.move_to_end(version)
        return {name: _shared(array) for name, array in arrays.items()}

    def put(
        self, version: Path, arrays: Mapping[str, Array | csr_array], largest: int | None = None
    ) -> None:
        """Keep copies of arrays that the folder of a version holds, if they are small.

        largest: what they may take, in bytes; None for the usual.
        """
        size = sum(map(_size, arrays.values()))
        if size > (_LARGEST if largest is None else largest):
            return
        copies = {name: _copy(array) for name, array in arrays.items()}
        with self._lock:
            self._drop(version)
            self._kept[version] = _look(version), copies
            self._bytes += size
            while self._bytes > _ALL_TOGETHER:
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._kept.clear()
            self._checked.clear()
            self._bytes = 0

    def _drop(self, version: Path) -> None:
        _, arrays = self._kept.pop(version, ((), {}))
        self._bytes -= sum(map(_size, arrays.values()))


def _look(version: Path) -> _Look:
    """Name, size and time of the last change of every file; nothing where one is missing."""
    try:
        with os.scandir(version) as entries:
            looks = [(entry.name, entry.stat()) for entry in entries]
    except FileNotFoundError:
        return ()
    return tuple(sorted((name, look.st_size, look.st_ctime_ns) for name, look in looks))


def _size(array: Array | csr_array) -> int:
    if isinstance(array, csr_array):
        return int(array.data.nbytes + array.indices.nbytes + array.indptr.nbytes)
    return int(np.asarray(array).nbytes)


def _copy(array: Array | csr_array) -> Array | csr_array:
    """A copy that cannot be written to."""
    if isinstance(array, csr_array):
        parts = _read_only(array.data), _read_only(array.indices), _read_only(array.indptr)
        return csr_array(parts, shape=array.shape)
    return _read_only(array)


def _read_only(array: Array) -> Array:
    copied = np.array(array)
    copied.flags.writeable = False
    return copied


def _shared(array: Array | csr_array) -> Array | csr_array:
    """The same numbers; a sparse matrix as an object of its own."""
    if isinstance(array, csr_array):
        return csr_array((array.data, array.indices, array.indptr), shape=array.shape)
    return array


# Of all stores: their roots differ, and so do the folders.
recent_arrays = RecentArrays()
