"""The model registry: immutable versions, and a pointer that names the champion.

    versions/<version>/   one folder as `ServedModel` writes it; never changed once it is there
    champion.json         which version is in use, and all that were (see `promotions`)

A version is written under a temporary name and renamed when complete, the pointer is replaced
in one step: a reader sees the old or the new champion, never a mixture. Writers take turns.
"""

import fcntl
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mom_pipeline.core.errors import DamagedModel, MomError
from mom_pipeline.core.files import sync_folder
from mom_pipeline.serving.promotions import (
    PROMOTED,
    ROLLED_BACK,
    Promotion,
    champions,
    read_promotions,
    renamed,
    write_promotions,
)
from mom_pipeline.serving.served_model import (
    MANIFEST,
    Manifest,
    ServedModel,
    check_files,
    read_manifest,
    version_of,
    write_manifest,
)

VERSIONS, POINTER = "versions", "champion.json"
_TEMPORARY = ".new"
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}-[0-9a-f]{12}")


class NoChampion(MomError):
    """No version has been promoted yet."""


class UnknownVersion(MomError):
    """There is no version of that name."""


class NothingToRollBack(MomError):
    """There was no champion before this one."""


@dataclass(frozen=True)
class StoredVersion:
    """A version as it lies there. manifest: None when unreadable.  damage: "" when whole."""

    version: str
    manifest: Manifest | None
    damage: str
    bytes: int


class ModelRegistry:
    """The versions below one folder, `models` of the data folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, version: str) -> Path:
        """Where a version lies; UnknownVersion when there is none of that name."""
        found = self.root / VERSIONS / version
        if not _VERSION.fullmatch(version) or not found.is_dir():
            raise UnknownVersion(
                f"there is no version {version!r}; `mom-pipeline models` lists those there are"
            )
        return found

    def names(self) -> list[str]:
        """The names of all versions, oldest day first; of one day, in the order of writing."""
        folders = sorted((self.root / VERSIONS).glob("*-*-*-*"), key=_age)
        return [path.name for path in folders if _VERSION.fullmatch(path.name)]

    def versions(self) -> list[StoredVersion]:
        """All versions, every file checked against its manifest; damaged ones say so."""
        return [self._described(name) for name in self.names()]

    def add(self, served: ServedModel) -> str:
        """Store a model and return its version; equal content is stored once."""
        with self._writing():
            return self._add(served)

    def load(self, version: str) -> ServedModel:
        """Read a version; DamagedModel when it is not what was written."""
        folder = self.folder(version)
        manifest, sums = read_manifest(folder)
        if manifest.version != version or version_of(manifest, sums) != version:
            raise DamagedModel(f"{folder / MANIFEST} is not the manifest of {version}")
        try:
            return ServedModel.load(folder)
        except OSError as error:  # removed by another process while it was read
            raise DamagedModel(f"{folder} cannot be read: {error}") from error

    def champion_version(self) -> str | None:
        """The version in use, or None before the first promotion."""
        return next(reversed(champions(self.history())), None)

    def champion(self) -> ServedModel:
        """The model in use; NoChampion when there is none."""
        while (version := self.champion_version()) is not None:
            try:
                return self.load(version)
            except (DamagedModel, UnknownVersion) as error:
                if self.champion_version() == version:
                    hint = "`mom-pipeline rollback` returns to the champion before"
                    raise type(error)(f"{error}; {hint}") from error
                # Replaced and removed while it was read: take the new one.
        raise NoChampion(
            f"no model is promoted in {self.root}; run `mom-pipeline update`, or choose one of "
            "`mom-pipeline models` with `mom-pipeline promote VERSION`"
        )

    def history(self) -> list[Promotion]:
        """Every change of the champion, oldest first."""
        return read_promotions(self.root / POINTER)

    def promote(self, version: str, reason: str) -> None:
        """Put a version in use once it has been read and found whole; else nothing changes."""
        with self._writing():
            self.load(version)
            history = self.history()
            if champions(history)[-1:] != [version]:
                self._point([*history, Promotion(version, _now(), PROMOTED, reason)])

    def rollback(self, reason: str = "asked for") -> str:
        """Return to the champion before and name it; else nothing changes.

        Raises NothingToRollBack when there was none, DamagedModel when it cannot be used.
        """
        with self._writing():
            history = self.history()
            stack = champions(history)
            if len(stack) < 2:
                raise NothingToRollBack(
                    "there is no champion before this one to return to; `mom-pipeline promote "
                    "VERSION` puts any other version in use"
                )
            self.load(stack[-2])
            self._point([*history, Promotion(stack[-2], _now(), ROLLED_BACK, reason)])
        return stack[-2]

    def remove_old(self, keep: int) -> list[str]:
        """Remove all but the newest `keep` versions (0: keep all), and return the removed.

        The champion and the one that a rollback returns to stay.
        """
        with self._writing():
            used = champions(self.history())[-2:]
            removed = [v for v in self.names()[:-keep] if v not in used] if keep else []
            for version in removed:
                shutil.rmtree(self.folder(version))
        return removed

    def rewrite(
        self, transform: Callable[[ServedModel], ServedModel | None]
    ) -> dict[str, str | None]:
        """Replace versions by others, such as those without one user. Old name -> new name.

        transform: None where a version stays as it is. The new ones are written, then champion
        and history get the new names in one step, then the old ones are removed; after a crash
        the same call ends the work. A damaged version cannot be transformed and is removed
        (None in the answer): what is left of it could still hold the user.
        """
        with self._writing():
            new_names: dict[str, str | None] = {}
            for version in self.names():
                try:
                    made = transform(self.load(version))
                except DamagedModel:
                    new_names[version] = None
                    continue
                if made is not None:
                    new_names[version] = self._add(made)
            changed = {old: new for old, new in new_names.items() if old != new}
            if changed and (self.root / POINTER).exists():
                self._point(renamed(self.history(), changed))
            for version in changed:
                shutil.rmtree(self.folder(version))
        return changed

    def _add(self, served: ServedModel) -> str:
        parent = self.root / VERSIONS
        temporary = parent / _TEMPORARY
        try:
            served.save(temporary)
            _, sums = read_manifest(temporary)
            version = version_of(served.manifest, sums)
            write_manifest(temporary, served.manifest.named(version), sums)
            if not self._is_whole(version):
                shutil.rmtree(parent / version, ignore_errors=True)
                temporary.replace(parent / version)
                sync_folder(parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return version

    def _is_whole(self, version: str) -> bool:
        try:
            self.load(version)
        except (DamagedModel, UnknownVersion):
            return False
        return True

    def _point(self, history: list[Promotion]) -> None:
        write_promotions(self.root / POINTER, history)

    def _described(self, version: str) -> StoredVersion:
        folder = self.root / VERSIONS / version
        size = sum(path.stat().st_size for path in folder.iterdir())
        manifest: Manifest | None = None
        try:
            manifest, sums = read_manifest(folder)
            check_files(folder, sums)
            if version_of(manifest, sums) != version:
                raise DamagedModel(f"{folder / MANIFEST} is not the manifest of {version}")
        except DamagedModel as error:
            return StoredVersion(version, manifest, str(error), size)
        return StoredVersion(version, manifest, "", size)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time; what a killed one left half done is removed."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(self.root / VERSIONS / _TEMPORARY, ignore_errors=True)
            yield


def _age(folder: Path) -> tuple[str, int, str]:
    manifest = folder / MANIFEST
    written = manifest.stat().st_mtime_ns if manifest.exists() else 0
    return folder.name[:10], written, folder.name


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
