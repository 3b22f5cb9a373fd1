"""Arrays on disk: `data/artifacts/<asset>/<day>/<version>/` with a manifest, checked on reading.

A version folder is written under a temporary name and renamed when complete, then the pointer
`current` is replaced in one step: a reader sees the old or the new artifact, never a mixture.
Nothing is pickled.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mom_pipeline.core.files import sync_folder, write_text, writing
from mom_pipeline.errors import DamagedArtifact

Array = NDArray[Any]
MANIFEST = "manifest.json"
POINTER = "current"
_FORMAT = 1
_NAME = re.compile(r"[a-z][a-z0-9_]*")
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

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(
        self,
        asset: str,
        day: date,
        arrays: Mapping[str, Array | csr_array],
        settings_fingerprint: str,
        parents: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Artifact:
        """Store arrays as the artifact of an asset and a day; replaces an earlier one."""
        folder = self._folder(asset, day)
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".new-{os.getpid()}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            manifest = {
                "format": _FORMAT,
                "asset": asset,
                "day": day.isoformat(),
                "settings_fingerprint": settings_fingerprint,
                "parents": dict(sorted((parents or {}).items())),
                "metadata": dict(metadata or {}),
                "arrays": {n: _write_array(temporary, n, a) for n, a in sorted(arrays.items())},
            }
            text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False) + "\n"
            version = hashlib.sha256(text.encode()).hexdigest()
            write_text(temporary / MANIFEST, text)
            _publish(folder, temporary, version)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return _artifact(manifest, dict(arrays), version)

    def read(self, asset: str, day: date) -> Artifact:
        """The current artifact, with every file checked against its sha256.

        Raises DamagedArtifact when it is missing, incomplete or differs from its manifest.
        """
        while (version := self.version(asset, day)) is not None:
            try:
                return _read_version(self._folder(asset, day) / version, version)
            except DamagedArtifact:
                if self.version(asset, day) == version:
                    raise
                # Replaced while it was read: take the new one.
        folder = self._folder(asset, day)
        raise DamagedArtifact(f"{folder} holds no artifact; materialize {asset} of {day}")

    def describe(self, asset: str, day: date) -> Artifact:
        """The manifest alone, without reading any array; raises as `read` does."""
        version = self.version(asset, day)
        if version is None:
            raise DamagedArtifact(
                f"{self._folder(asset, day)} holds no artifact; materialize {asset} of {day}"
            )
        manifest = _read_manifest(self._folder(asset, day) / version, version)
        return _artifact(manifest, {}, version)

    def version(self, asset: str, day: date) -> str | None:
        """The version that `current` points to, or None."""
        pointer = self._folder(asset, day) / POINTER
        return pointer.read_text(encoding="ascii").strip() if pointer.exists() else None

    def days(self, asset: str) -> list[date]:
        """The days of an asset that have an artifact, in order."""
        folders = sorted(self._folder(asset).glob(f"*/{POINTER}"))
        return [date.fromisoformat(pointer.parent.name) for pointer in folders]

    def remove(self, asset: str, day: date) -> bool:
        """Remove the artifact of a day; True if there was one."""
        folder = self._folder(asset, day)
        if not folder.exists():
            return False
        _remove(folder)
        return True

    def is_expired(self, asset: str, day: date, retention_days: int) -> bool:
        """Whether a day lies `retention_days` or more before an asset's newest (0: never)."""
        days = self.days(asset) if retention_days else []
        return bool(days) and day <= days[-1] - timedelta(days=retention_days)

    def apply_retention(self, retention_days: int, *, spared: Collection[date] = ()) -> list[Path]:
        """Remove the expired days of every asset, except those spared (0: keep all)."""
        removed: list[Path] = []
        for folder in sorted(self.root.iterdir()) if retention_days and self.root.is_dir() else []:
            for day in self.days(folder.name):
                if self.is_expired(folder.name, day, retention_days) and day not in spared:
                    removed.append(folder / day.isoformat())
                    _remove(removed[-1])
        return removed

    def _folder(self, asset: str, day: date | None = None) -> Path:
        if not _NAME.fullmatch(asset):
            raise ValueError(f"an asset is named in lower case letters, digits and _: {asset!r}")
        return self.root / asset / day.isoformat() if day else self.root / asset


def _write_array(folder: Path, name: str, array: Array | csr_array) -> dict[str, Any]:
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
    path = folder / f"{name}.npz"
    with writing(path) as out:
        np.savez(out, allow_pickle=False, **parts)
    return {
        "sha256": _sha256(path),
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "kind": "csr" if isinstance(array, csr_array) else "dense",
    }


def _read_version(folder: Path, version: str) -> Artifact:
    manifest = _read_manifest(folder, version)
    arrays = {n: _read_array(folder, n, entry) for n, entry in manifest["arrays"].items()}
    return _artifact(manifest, arrays, version)


def _read_array(folder: Path, name: str, entry: Mapping[str, Any]) -> Array | csr_array:
    path = folder / f"{name}.npz"
    try:
        stream = path.open("rb")
    except OSError as error:
        raise DamagedArtifact(f"{path} cannot be read ({error}); materialize it again") from error
    with stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != entry["sha256"]:
            raise DamagedArtifact(f"{path} differs from its manifest; materialize it again")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as parts:
            if entry["kind"] == "dense":
                return np.asarray(parts["data"])
            rows, columns = (int(n) for n in parts["shape"])
            values = (parts["data"], parts["indices"], parts["indptr"])
            return csr_array(values, shape=(rows, columns))


def _read_manifest(folder: Path, version: str) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedArtifact(f"{path} cannot be read ({error}); materialize it again") from error
    if hashlib.sha256(data).hexdigest() != version:
        raise DamagedArtifact(f"{path} differs from its version; materialize the artifact again")
    manifest: dict[str, Any] = json.loads(data)
    if manifest["format"] != _FORMAT:
        raise DamagedArtifact(
            f"{path} has format {manifest['format']}, this code reads {_FORMAT}; materialize again"
        )
    return manifest


def _artifact(manifest: dict[str, Any], arrays: dict[str, Any], version: str) -> Artifact:
    return Artifact(
        asset=manifest["asset"],
        day=date.fromisoformat(manifest["day"]),
        arrays=arrays,
        settings_fingerprint=manifest["settings_fingerprint"],
        parents=manifest["parents"],
        metadata=manifest["metadata"],
        version=version,
    )


def _publish(folder: Path, temporary: Path, version: str) -> None:
    """Rename the complete version into place, point to it, remove the others."""
    target = folder / version
    if not _is_whole(target, version):
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
        sync_folder(folder)
    write_text(folder / POINTER, version + "\n")
    for other in folder.iterdir():
        if other.is_dir() and other != target:
            shutil.rmtree(other, ignore_errors=True)


def _is_whole(folder: Path, version: str) -> bool:
    """True when this very content is there already, undamaged."""
    try:
        _read_version(folder, version)
    except DamagedArtifact:
        return False
    return True


def _remove(folder: Path) -> None:
    """Remove the pointer first, so that no reader finds a half removed artifact."""
    (folder / POINTER).unlink(missing_ok=True)
    shutil.rmtree(folder)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
