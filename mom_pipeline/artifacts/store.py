"""`ArrayStore`: the arrays of days, `artifacts/<asset>/<day>-<hash>.npz`, checked on reading.

A file never changes. Which one counts is said by the ledger (`warehouse.materializations`).
"""

import os
import re
import shutil
import zipfile
from collections.abc import Collection, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.core.files import sha256_of, sync_folder, temporary_path
from mom_pipeline.core.persistence import mapped_arrays, write_npz
from mom_pipeline.core.types import Array
from mom_pipeline.errors import DamagedArtifact

Arrays = dict[str, Any]
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}-[0-9a-f]{24}")
_DIGITS = 24
_SPARSE_PARTS = ("data", "indices", "indptr", "shape")


class ArrayStore:
    """The arrays of one data folder."""

    def __init__(self, root: Path, *, mapped: bool = False) -> None:
        """Open a folder. mapped: arrays stay in their files, and are read where used."""
        self.root = root
        self._mapped = mapped

    def write(self, asset: str, day: date, arrays: Mapping[str, Array | csr_array]) -> str:
        """Store arrays, dense or CSR; return their version: the day, and the hash of the file."""
        folder = self._folder(asset)
        folder.mkdir(parents=True, exist_ok=True)
        temporary = temporary_path(folder / f"{day}.npz")
        parts: dict[str, Array] = {}
        for name, array in arrays.items():
            names = _SPARSE_PARTS if isinstance(array, csr_array) else ()
            parts |= {f"{name}.{part}": np.asarray(getattr(array, part)) for part in names}
            if not names:
                parts[name] = np.asarray(array)
        try:
            with temporary.open("wb") as out:
                write_npz(out, parts, deflated=not self._mapped)
                out.flush()
                os.fsync(out.fileno())
            version = f"{day}-{sha256_of(temporary)[:_DIGITS]}"
            temporary.replace(self.path(asset, version))
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(folder)
        return version

    def read(self, asset: str, version: str) -> Arrays:
        """The arrays of a version; DamagedArtifact when they are gone or not what was written."""
        path = self.path(asset, version)
        try:
            if not self.is_whole(asset, version):
                raise DamagedArtifact(f"{path} is not what was written")
            if self._mapped:
                parts = mapped_arrays(path)
            else:
                with np.load(path, allow_pickle=False) as file:
                    parts = {name: np.asarray(file[name]) for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise DamagedArtifact(f"{path} cannot be read ({error})") from error
        return _joined(parts)

    def is_whole(self, asset: str, version: str) -> bool:
        """Whether the file of a version is there, and what was written."""
        try:
            return sha256_of(self.path(asset, version))[:_DIGITS] == version[-_DIGITS:]
        except OSError:
            return False

    def remove(self, asset: str, version: str) -> None:
        """Remove the file of a version, or what stands in its place."""
        path = self.path(asset, version)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def path(self, asset: str, version: str) -> Path:
        """Where a version lies, or would."""
        if not _VERSION.fullmatch(version):
            raise DamagedArtifact(f"{version!r} is no version of arrays")
        return self._folder(asset) / f"{version}.npz"

    def remove_others(self, kept: Collection[tuple[str, str]]) -> int:
        """Remove all files but those of some assets and versions, links aside; return how many."""
        paths = {self.path(asset, version) for asset, version in kept}
        folders = [folder for folder in self.root.glob("*") if not folder.is_symlink()]
        found = (path for folder in folders for path in folder.glob("*.npz"))
        others = [path for path in found if path not in paths]
        for path in others:
            path.unlink()
        return len(others)

    def _folder(self, asset: str) -> Path:
        if not _NAME.fullmatch(asset):
            raise ValueError(f"an asset is named in lower case letters, digits and _: {asset!r}")
        return self.root / asset


def _joined(parts: Mapping[str, Array]) -> Arrays:
    arrays: Arrays = {name: array for name, array in parts.items() if "." not in name}
    for name in (name.removesuffix(".indptr") for name in parts if name.endswith(".indptr")):
        data, indices, indptr, shape = (parts[f"{name}.{part}"] for part in _SPARSE_PARTS)
        rows, columns = (int(n) for n in shape)
        arrays[name] = csr_array((data, indices, indptr), shape=(rows, columns))
    return arrays
