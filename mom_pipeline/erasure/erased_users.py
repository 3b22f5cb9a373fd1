"""Who was erased, without saying who: a salted hash each, and the receipts.

    erasures/salt           made once for a data folder
    erasures/<hash>.json    what was removed; `finished` is empty until the work is complete

The hash is there so that a file that is delivered again does not bring a person back. It hides
the id from whoever reads it, not from whoever holds the salt and guesses the id.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from mom_pipeline.core.files import write_text
from mom_pipeline.settings import Settings

_SALT = "salt"


@dataclass(frozen=True)
class ErasedUsers:
    """What the ingest compares with. hashes: sha256(salt || id) of everyone who was erased."""

    salt: str = ""
    hashes: tuple[str, ...] = ()

    def __contains__(self, user_id: str) -> bool:
        return self.hash_of(user_id) in self.hashes

    def hash_of(self, user_id: str) -> str:
        """The hash under which an id is known here."""
        return hashlib.sha256(f"{self.salt}{user_id}".encode()).hexdigest()


@dataclass(frozen=True)
class Receipt:
    """What an erasure did, without the id.

    removed: place -> lines, rows, files or arrays that were removed or rewritten.
    """

    user: str
    begun: str
    finished: str = ""
    removed: dict[str, int] = field(default_factory=dict)

    def adding(self, counts: Mapping[str, int]) -> Self:
        """The receipt after a further step."""
        removed = {k: self.removed.get(k, 0) + counts.get(k, 0) for k in (*self.removed, *counts)}
        return replace(self, removed=removed)


def erased_users(settings: Settings) -> ErasedUsers:
    """Everyone whose erasure was begun."""
    folder = settings.erasures_dir
    salt = folder / _SALT
    if not salt.exists():
        return ErasedUsers()
    hashes = tuple(sorted(path.stem for path in folder.glob("*.json")))
    return ErasedUsers(salt.read_text(encoding="ascii").strip(), hashes)


def begin_receipt(settings: Settings, user_id: str) -> Receipt:
    """Remember, before anything is removed, that a user is to be erased.

    From now on no ingest takes the user's lines. An erasure that was interrupted is taken up
    with what it had counted, and one that was finished is opened again.
    """
    if not (settings.erasures_dir / _SALT).exists():
        write_text(settings.erasures_dir / _SALT, secrets.token_hex(32) + "\n")
    user = erased_users(settings).hash_of(user_id)
    known = _read(_path(settings, user))
    return save_receipt(settings, replace(known or Receipt(user, _now()), finished=""))


def finish_receipt(settings: Settings, receipt: Receipt) -> Receipt:
    """Say that the work is complete."""
    return save_receipt(settings, replace(receipt, finished=_now()))


def save_receipt(settings: Settings, receipt: Receipt) -> Receipt:
    """Write a receipt, whole or not at all."""
    text = json.dumps(asdict(receipt), indent=2, sort_keys=True)
    write_text(_path(settings, receipt.user), text + "\n")
    return receipt


def unfinished_erasures(settings: Settings) -> int:
    """How many erasures were begun and not completed."""
    found = [_read(path) for path in settings.erasures_dir.glob("*.json")]
    return sum(receipt is None or not receipt.finished for receipt in found)


def _path(settings: Settings, user: str) -> Path:
    return settings.erasures_dir / f"{user}.json"


def _read(path: Path) -> Receipt | None:
    """What a file holds, or None; the hash is in its name, so a damaged one still counts."""
    try:
        return Receipt(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
