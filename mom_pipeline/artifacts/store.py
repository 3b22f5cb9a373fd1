"""`ArtifactStore`: arrays in `data/artifacts/<asset>/<day>/<version>/`, checked on reading.

Beside the versions of a day (see `versions`), the file `current` names the one that counts. It
is replaced in one step: a reader sees the old or the new artifact, never a mixture. Nothing is
pickled.
"""

import os
import re
import shutil
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.artifacts.recent import Arrays, recent_arrays
from mom_pipeline.artifacts.versions import (
    check_files,
    publish,
    read_manifest,
    seal,
    unfinished_version,
)
from mom_pipeline.core.files import locked, write_text
from mom_pipeline.core.persistence import mapped_arrays, write_npz
from mom_pipeline.core.types import Array
from mom_pipeline.errors import DamagedArtifact, ExpiredArrays

POINTER = "current"
# Lies in a version of which arrays were removed because it is old.
_EXPIRED = "expired"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"[0-9a-f]{64}")
# Files from so many bytes on are mapped, where that is asked for; smaller ones are read at once.
_MAPPED_BYTES = 4_000_000
_SPARSE_PARTS = ("data", "indices", "indptr", "shape")


@dataclass(frozen=True)
class Artifact:
    """What the manifest says, and the arrays.

    parents: artifact or table name -> the fingerprint that it had when this one was made.
    metadata: numbers and texts worth keeping beside the arrays.
    version: sha256 over the manifest; equal content has an equal version.
    """

    asset: str
    day: date
    arrays: dict[str, Array | csr_array]
    settings_fingerprint: str
    parents: dict[str, str]
    metadata: dict[str, Any]
    version: str

    @property
    def dense(self) -> dict[str, Array]:
        """The arrays that are not sparse."""
        return {n: a for n, a in self.arrays.items() if not isinstance(a, csr_array)}


class ArtifactStore:
    """The artifacts of one data folder."""

    def __init__(self, root: Path, *, mapped: bool = False) -> None:
        """Open a folder. mapped: large arrays stay in their files, and are read where used."""
        self.root = root
        self._mapped = mapped
        self._kept_bytes = _MAPPED_BYTES if mapped else None

    def write(
        self,
        asset: str,
        day: date,
        arrays: Mapping[str, Array | csr_array],
        settings_fingerprint: str,
        parents: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        plain: Collection[str] = (),
    ) -> Artifact:
        """Store arrays as the artifact of an asset and a day; replaces an earlier one.

        plain: arrays that are not deflated, since they are large and will not be kept for long.
        """
        folder = self._folder(asset, day)
        with unfinished_version(folder.parent) as unfinished:
            facts = {
                "asset": asset,
                "day": day.isoformat(),
                "settings_fingerprint": settings_fingerprint,
                "parents": dict(parents or {}),
                "metadata": dict(metadata or {}),
                "arrays": {
                    name: _write_array(
                        unfinished, name, array, deflated=not self._mapped and name not in plain
                    )
                    for name, array in arrays.items()
                },
            }
            version = seal(unfinished, facts)
            with locked(folder.parent):
                publish(unfinished, folder / version)
                write_text(folder / POINTER, version + "\n")
                _remove_others(folder, version)
        recent_arrays.note_checked(folder / version)
        recent_arrays.put(folder / version, arrays, self._kept_bytes)
        return _artifact(facts, dict(arrays), version)

    def read(self, asset: str, day: date) -> Artifact:
        """The current artifact, with every file checked against its sha256.

        Raises DamagedArtifact when it is missing, incomplete or differs from its manifest.
        """
        return self._current(asset, day, self._read_arrays)

    def describe(self, asset: str, day: date) -> Artifact:
        """The manifest alone, without reading any array; raises as `read` does."""
        return self._current(asset, day, lambda folder, manifest: {})

    def version(self, asset: str, day: date) -> str | None:
        """The version that `current` names, or None."""
        try:
            with open(f"{self._folder(asset, day)}/{POINTER}", "rb") as pointer:
                return pointer.read().decode("ascii", errors="replace").strip()
        except FileNotFoundError:
            return None

    def days(self, asset: str) -> list[date]:
        """The days of an asset that have an artifact, in order."""
        return [date.fromisoformat(name) for name in self._named(asset) if self._has(asset, name)]

    def newest(self, asset: str) -> date | None:
        """The newest day of an asset that has an artifact; None where there is none."""
        names = (name for name in reversed(self._named(asset)) if self._has(asset, name))
        newest = next(names, None)
        return None if newest is None else date.fromisoformat(newest)

    def size(self, asset: str, day: date) -> int:
        """How many bytes the arrays of a day take."""
        return sum(path.stat().st_size for path in self._folder(asset, day).glob("*/*.npz"))

    def holds(self, asset: str, day: date, array: str) -> bool:
        """Whether an array of a day is there: of an old one it may have been removed."""
        version = self.version(asset, day) or ""
        return (self._folder(asset, day) / version / f"{array}.npz").exists()

    def remove(self, asset: str, day: date) -> bool:
        """Remove the artifact of a day; True if there was one."""
        folder = self._folder(asset, day)
        if not folder.exists():
            return False
        with locked(folder.parent):
            # The pointer first, so that no reader finds a half removed artifact.
            (folder / POINTER).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        return True

    def assets(self) -> list[str]:
        """The names of the assets that have a folder, in order."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if path.is_dir())

    def remove_from(self, first: date) -> int:
        """Remove the artifacts of a day and of all later ones. Returns how many there were."""
        later = [(a, day) for a in self.assets() for day in self.days(a) if day >= first]
        return sum(self.remove(asset, day) for asset, day in later)

    def remove_arrays(self, asset: str, day: date, *, kept: Collection[str] = ()) -> bool:
        """Remove the arrays of a day but those kept, not the manifest; True if there were any."""
        folder = self._folder(asset, day)
        with locked(folder.parent):
            version = folder / (self.version(asset, day) or "")
            arrays = [path for path in sorted(version.glob("*.npz")) if path.stem not in kept]
            if arrays:
                write_text(version / _EXPIRED, "")  # first: a missing array is no damage then
            for path in arrays:
                path.unlink()
        return bool(arrays)

    def _named(self, asset: str) -> list[str]:
        """The names of the folders of an asset's days, in order."""
        try:
            return sorted(os.listdir(self._folder(asset)))
        except FileNotFoundError:
            return []

    def _has(self, asset: str, day: str) -> bool:
        return os.path.exists(f"{self._folder(asset)}/{day}/{POINTER}")

    def _read_arrays(self, folder: Path, manifest: Mapping[str, Any]) -> Arrays:
        arrays = recent_arrays.get(folder)
        if arrays is None:
            arrays = _read_arrays(folder, manifest, mapped=self._mapped)
            recent_arrays.put(folder, arrays, self._kept_bytes)
        return arrays

    def _current(
        self, asset: str, day: date, read: Callable[[Path, dict[str, Any]], dict[str, Any]]
    ) -> Artifact:
        folder = self._folder(asset, day)
        while (version := self.version(asset, day)) is not None:
            try:
                if not _VERSION.fullmatch(version):
                    raise DamagedArtifact(f"{folder / POINTER} does not name a version")
                manifest = read_manifest(folder / version)
                return _artifact(manifest, read(folder / version, manifest), version)
            except DamagedArtifact as error:
                if self.version(asset, day) == version:
                    if isinstance(error, ExpiredArrays):
                        raise
                    raise DamagedArtifact(f"{error}; materialize {asset} of {day} again") from error
                # Replaced while it was read: take the new one.
        raise DamagedArtifact(f"{folder} holds no artifact; materialize {asset} of {day}")

    def _folder(self, asset: str, day: date | None = None) -> Path:
        if not _NAME.fullmatch(asset):
            raise ValueError(f"an asset is named in lower case letters, digits and _: {asset!r}")
        return self.root / asset / day.isoformat() if day else self.root / asset


def _write_array(
    folder: Path, name: str, array: Array | csr_array, *, deflated: bool
) -> dict[str, Any]:
    """One .npz per array: dense as `data`, CSR as its four parts. The manifest's entry for it."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"an array is named in lower case letters, digits and _: {name!r}")
    if isinstance(array, csr_array):
        parts = {p: np.asarray(getattr(array, p)) for p in _SPARSE_PARTS}
    else:
        parts = {"data": np.asarray(array)}
    for part in parts.values():
        if part.dtype.hasobject:
            raise ValueError(f"array {name!r} holds Python objects; store text as fixed-width 'U'")
    # No name of its own until then: the folder is an unfinished version.
    with (folder / f"{name}.npz").open("wb") as out:
        write_npz(out, parts, deflated=deflated)
        out.flush()
        os.fsync(out.fileno())
    kind = "csr" if isinstance(array, csr_array) else "dense"
    return {"shape": list(array.shape), "dtype": str(array.dtype), "kind": kind}


def _read_arrays(folder: Path, manifest: Mapping[str, Any], *, mapped: bool) -> Arrays:
    if (folder / _EXPIRED).exists():
        manifest = _left(folder, manifest)
        if not manifest["arrays"]:
            raise ExpiredArrays(
                "its arrays were removed, since it is old (artifacts.retention_days)"
            )
    recent_arrays.check(folder, lambda: check_files(folder, manifest))
    try:
        return {
            n: _read_array(folder / f"{n}.npz", e, mapped=mapped)
            for n, e in manifest["arrays"].items()
        }
    except (OSError, ValueError, zipfile.BadZipFile) as error:  # removed since it was checked
        raise DamagedArtifact(f"{folder} cannot be read ({error})") from error


def _left(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of the arrays that were not removed since."""
    names = [name for name in manifest["arrays"] if (folder / f"{name}.npz").exists()]
    return {
        "arrays": {name: manifest["arrays"][name] for name in names},
        "sha256": {f"{name}.npz": manifest["sha256"][f"{name}.npz"] for name in names},
    }


def _read_array(path: Path, entry: Mapping[str, Any], *, mapped: bool) -> Array | csr_array:
    if mapped and path.stat().st_size >= _MAPPED_BYTES:
        parts = mapped_arrays(path)
    else:
        with np.load(path, allow_pickle=False) as file:
            parts = {name: np.asarray(file[name]) for name in file.files}
    if entry["kind"] == "dense":
        return parts["data"]
    rows, columns = (int(n) for n in parts["shape"])
    values = (parts["data"], parts["indices"], parts["indptr"])
    return csr_array(values, shape=(rows, columns))


def _artifact(manifest: Mapping[str, Any], arrays: dict[str, Any], version: str) -> Artifact:
    return Artifact(
        asset=manifest["asset"],
        day=date.fromisoformat(manifest["day"]),
        arrays=arrays,
        settings_fingerprint=manifest["settings_fingerprint"],
        parents=manifest["parents"],
        metadata=manifest["metadata"],
        version=version,
    )


def _remove_others(folder: Path, version: str) -> None:
    for other in folder.iterdir():
        if other.is_dir() and other.name != version:
            shutil.rmtree(other, ignore_errors=True)
