"""The model registry: immutable versions, and a pointer that names the champion.

    versions/<version>/   one folder as `ServedModel` writes it; never changed once it is there
    champion.json         every change of the champion, replaced in one step

Pointer and history are one file, so they cannot disagree: a promotion puts a version on top, a
rollback takes one away. A reader sees the old or the new champion; writers take turns.
"""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from mom_pipeline.artifacts.versions import (
    MANIFEST,
    publish,
    remove_left_overs,
    seal,
    share_files,
    unfinished_version,
)
from mom_pipeline.core.errors import DamagedModel, ModelOfOtherVersion, MomError
from mom_pipeline.core.files import locked, sha256_of, write_text
from mom_pipeline.serving.rates import Trial
from mom_pipeline.serving.served_model import Manifest, ServedModel

VERSIONS, POINTER, EVALUATED = "versions", "champion.json", "evaluated.json"
TRIAL = "trial.json"
PROMOTED, ROLLED_BACK = "promoted", "rolled back"
KEPT, LIFTED = "kept", "left to the gate again"
GATE, PERSON = "gate", "person"
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}-[0-9a-f]{12}")
_DIGITS, _ISO_DAY = 12, 10


class NoChampion(MomError):
    """No version has been promoted yet."""


class UnknownVersion(MomError):
    """There is no version of that name."""


class NothingToRollBack(MomError):
    """There was no champion before this one."""


class DamagedPointer(MomError):
    """The file that names the champion cannot be read."""


# Why a model in use cannot answer.
UNUSABLE = (DamagedModel, UnknownVersion, DamagedPointer)


@dataclass(frozen=True)
class Promotion:
    """One change of the champion, to `version`. by: a person's choice stays until lifted."""

    version: str
    time: str
    kind: str
    reason: str
    by: str = GATE


@dataclass(frozen=True)
class EvaluatedDay:
    """The lists of an earlier model against what people took until a day."""

    day: str
    cutoff: int
    users: int
    recall: float  # share of that which was among the first `cutoff` items
    popularity: float  # the same of a list of popular items


@dataclass(frozen=True)
class StoredVersion:
    """A version as it lies there. manifest: None when unreadable.  damage: "" when whole."""

    version: str
    manifest: Manifest | None
    damage: str
    bytes: int


class ModelRegistry:
    """The versions below one folder. mapped: the histories stay in their files."""

    def __init__(self, root: Path, *, mapped: bool = False) -> None:
        self.root = root
        self._mapped = mapped

    def has(self, version: str) -> bool:
        """Whether a version is there."""
        return os.path.isdir(f"{self.root}/{VERSIONS}/{version}")

    def folder(self, version: str) -> Path:
        """Where a version lies; UnknownVersion when there is none of that name."""
        folder = self.root / VERSIONS / version
        if not _VERSION.fullmatch(version) or not folder.is_dir():
            raise UnknownVersion(
                f"there is no version {version!r}; `mom-pipeline models` lists those there are"
            )
        return folder

    def names(self) -> list[str]:
        """The names of all versions, oldest day first; of one day, in the order of writing."""
        folders = sorted((self.root / VERSIONS).glob("*-*-*-*"), key=_age)
        return [p.name for p in folders if _VERSION.fullmatch(p.name) and not p.is_symlink()]

    def versions(self) -> list[StoredVersion]:
        """All versions, every file checked against its manifest; damaged ones say so."""
        return [self._described(name) for name in self.names()]

    def add(self, served: ServedModel) -> str:
        """Store a model and return its version; equal content is stored once."""
        with locked(self.root):
            return self._add(served)

    def load(self, version: str) -> ServedModel:
        """Read a version; DamagedModel when it is not what was written."""
        return ServedModel.load(self.folder(version), mapped=self._mapped)

    def champion_version(self) -> str | None:
        """The version in use, or None before the first promotion."""
        return next(reversed(_champions(self.history())), None)

    def version_as_of(self, day: date) -> str | None:
        """The version in use as of a day: the last one put in use that is of no later day."""
        champions = reversed(_champions(self.history()))
        return next((v for v in champions if v[:_ISO_DAY] <= day.isoformat()), None)

    def champion(self) -> ServedModel:
        """The model in use; NoChampion when there is none."""
        while (version := self.champion_version()) is not None:
            try:
                return self.load(version)
            except (DamagedModel, UnknownVersion) as error:
                if self.champion_version() == version:
                    hint = "`mom-pipeline rollback` returns to the champion before"
                    if isinstance(error, ModelOfOtherVersion):
                        hint = "`mom-pipeline update` computes the days again and puts one in use"
                    raise type(error)(f"{error}; {hint}") from error
                # Replaced and removed while it was read: take the new one.
        raise NoChampion(
            f"no model is in use in {self.root}; `mom-pipeline update` makes one, or says why not "
            "yet. `mom-pipeline promote VERSION` chooses one of `mom-pipeline models`"
        )

    def history(self) -> list[Promotion]:
        """Every change of the champion, oldest first."""
        path = self.root / POINTER
        try:
            text = path.read_text(encoding="utf-8")
            stored = json.loads(text)
            history = [Promotion(**entry) for entry in stored["promotions"]]
            if stored.keys() != {"promotions"} and text != _pointer_text(history):
                raise ValueError("it is not what was written")
            _standing(history)
        except FileNotFoundError:
            return []
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise DamagedPointer(
                f"{path} does not name a champion ({error!r}); remove it and promote a version "
                "again"
            ) from error
        return history

    def promote(self, version: str, reason: str, *, by: str = GATE) -> None:
        """Put a version in use once it has been read and is whole; else nothing changes."""
        with locked(self.root):
            self.load(version)
            history = self.history()
            if _champions(history)[-1:] != [version]:
                self._note(history, version, PROMOTED, reason, by)
            elif by == PERSON and not _is_chosen(history):
                self._note(history, version, KEPT, reason, by)

    def evaluated(self) -> list[EvaluatedDay]:
        """How good the lists were by day, as far as it was noted."""
        path = self.root / EVALUATED
        try:
            return [EvaluatedDay(**entry) for entry in json.loads(path.read_bytes())]
        except (OSError, ValueError, TypeError, RecursionError):
            return []

    def note_evaluated(self, days: Iterable[EvaluatedDay]) -> None:
        """Keep what the warehouse knows, for answers without it."""
        write_text(self.root / EVALUATED, json.dumps([asdict(day) for day in days]))

    def trial(self) -> Trial | None:
        """The version that answers beside the champion; None for none, or where it is gone."""
        try:
            trial = Trial(**json.loads((self.root / TRIAL).read_bytes()))
            self.folder(trial.version)
        except (OSError, ValueError, TypeError, UnknownVersion):
            return None
        return trial

    def try_out(self, version: str, share: float) -> Trial | None:
        """Let a whole version answer a share of the users; one under way goes on. "": nobody."""
        if not version:
            (self.root / TRIAL).unlink(missing_ok=True)
            return None
        self.load(version)
        with locked(self.root):
            before, today = self.trial(), datetime.now(tz=UTC).date().isoformat()
            same = before is not None and before.version == version and before.share == share
            trial = Trial(version, share, before.since if before and same else today)
            write_text(self.root / TRIAL, json.dumps(asdict(trial)))
        return trial

    def is_chosen(self) -> bool:
        """Whether a person put the champion in use, so that the gate may not replace it."""
        return _is_chosen(self.history())

    def lift(self, reason: str) -> str | None:
        """Let the gate decide again; return the champion, None when there is none."""
        with locked(self.root):
            history, champion = self.history(), self.champion_version()
            if champion is not None and _is_chosen(history):
                self._note(history, champion, LIFTED, reason, PERSON)
        return champion

    def rollback(self, reason: str = "asked for") -> str:
        """Return to the champion before and name it; it stays until a person lifts that."""
        with locked(self.root):
            history = self.history()
            champions = _champions(history)
            if len(champions) < 2:
                raise NothingToRollBack(
                    "there is no champion before this one to return to; `mom-pipeline promote "
                    "VERSION` puts any other version in use"
                )
            self.load(champions[-2])
            self._note(history, champions[-2], ROLLED_BACK, reason, PERSON)
        return champions[-2]

    def set_aside_pointer(self) -> None:
        """Rename a file of the champion that cannot be read: versions are promoted anew."""
        with locked(self.root):
            try:
                self.history()
            except DamagedPointer:
                path = self.root / POINTER
                path.replace(path.with_name(f"{POINTER}.damaged"))

    def fall_back(self, reason: str) -> str | None:
        """Put the newest whole version in use; None where there is none."""
        whole = [entry.version for entry in self.versions() if not entry.damage]
        if whole:
            self.promote(whole[-1], reason)
        return whole[-1] if whole else None

    def remove_old(self, keep: int, new: str = "") -> list[str]:
        """Remove all but the newest `keep` (0: all), champion, rollback, trial, and a new one."""
        with locked(self.root):
            trial = self.trial()
            used = [*_champions(self.history())[-2:], new, trial.version if trial else ""]
            removed = [v for v in self.names()[:-keep] if v not in used] if keep else []
            for version in removed:
                shutil.rmtree(self.folder(version))
        return removed

    def remove_damaged(self) -> list[str]:
        """Remove the versions that are damaged and not in use: none of them can be put in use."""
        with locked(self.root):
            champion = self.champion_version()
            removed = [e.version for e in self.versions() if e.damage and e.version != champion]
            for version in removed:
                shutil.rmtree(self.folder(version))
        return removed

    def forget(self, user_ids: Collection[str]) -> int:
        """Leave the model in use alone, without some users; how many versions went.

        After a crash the same call ends the work. A damaged model goes, too: what is left of it
        could still hold the users.
        """
        if not self.root.is_dir():
            return 0
        with locked(self.root):
            (self.root / VERSIONS).mkdir(exist_ok=True)
            remove_left_overs(self.root / VERSIONS)
            version, before = self.champion_version(), self.names()
            try:
                left = self.load(version).without_users(user_ids) if version else None
                version = self._add(left) if left else version
            except (DamagedModel, UnknownVersion):
                version = None
            self._leave_only(version, "made without who was erased")
        return len({*before} - {version})

    def leave_only(self, version: str | None, reason: str) -> None:
        """Put a version in use and remove all others, or remove all; a choice of a person stays."""
        with locked(self.root):
            self._leave_only(version, reason)

    def _leave_only(self, version: str | None, reason: str) -> None:
        if version is None:
            (self.root / POINTER).unlink(missing_ok=True)
        else:
            self.load(version)
            self._note([], version, PROMOTED, reason, PERSON if self.is_chosen() else GATE)
        for other in self.names():
            if other != version:
                shutil.rmtree(self.folder(other))

    def _add(self, served: ServedModel) -> str:
        parent = self.root / VERSIONS
        with unfinished_version(parent) as folder:
            served.write_files(folder, deflated=not self._mapped)
            version = f"{served.manifest.day}-{seal(folder, served.manifest.facts)[:_DIGITS]}"
            share_files(folder, (parent / name for name in self.names()[-1:]))
            publish(folder, parent / version)
        return version

    def _note(
        self, history: Sequence[Promotion], version: str, kind: str, reason: str, by: str
    ) -> None:
        now = datetime.now(tz=UTC).isoformat(timespec="seconds")
        self._point([*history, Promotion(version, now, kind, reason, by)])

    def _point(self, history: Iterable[Promotion]) -> None:
        write_text(self.root / POINTER, _pointer_text(history))

    def _described(self, version: str) -> StoredVersion:
        folder = self.root / VERSIONS / version
        size = sum(path.lstat().st_size for path in folder.iterdir())
        manifest, damage = None, ""
        try:
            manifest = Manifest.read(folder)
            Manifest.read(folder, check=True)
        except DamagedModel as error:
            damage = str(error)
        return StoredVersion(version, manifest, damage, size)


def _pointer_text(history: Iterable[Promotion]) -> str:
    """What is written; one of an earlier version has no sha256."""
    changes = [asdict(entry) for entry in history]
    value = {"promotions": changes, "sha256": sha256_of(json.dumps(changes).encode())}
    return json.dumps(value, indent=2) + "\n"


def _standing(history: Iterable[Promotion]) -> list[Promotion]:
    """The promotions that no rollback took back; the last one is that of the champion."""
    stack: list[Promotion] = []
    for entry in history:
        if entry.kind == ROLLED_BACK:
            stack.pop()
        elif entry.kind == PROMOTED:
            stack.append(entry)
    return stack


def _champions(history: Iterable[Promotion]) -> list[str]:
    """The champion last, before it those that a rollback returns to."""
    return [entry.version for entry in _standing(history)]


def _is_chosen(history: Sequence[Promotion]) -> bool:
    return bool(history) and history[-1].by == PERSON and history[-1].kind != LIFTED


def _age(folder: Path) -> tuple[str, int, str]:
    manifest = folder / MANIFEST
    written = manifest.stat().st_mtime_ns if manifest.exists() else 0
    return folder.name[:_ISO_DAY], written, folder.name
