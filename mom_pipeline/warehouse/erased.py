"""Erased users as salted hashes, with which the ingest compares ids.

    erasures/salt         made once for a data folder: the key of its hashes and receipts
    erasures/NAME.json    the receipt of an erasure, signed with it (`erasure.receipts`)

The hash is there so that a file that is delivered again does not bring a person back. It hides
the id from whoever reads it, not from whoever holds the salt and guesses the id.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mom_pipeline.errors import MomError
from mom_pipeline.settings import Settings

SALT, SIGNATURE = "salt", "hmac"
_REMEDY = (
    "put erasures/ back from a copy; until then no log file is ingested, since whoever was erased "
    "might come back"
)


class ErasuresNotWhole(MomError):
    """The salt or a receipt is gone or was changed: nobody can tell who was erased."""


@dataclass(frozen=True)
class ErasedUsers:
    """What the ingest compares with. hashes: sha256(salt || id) of everyone who was erased."""

    salt: str = ""
    hashes: frozenset[str] = frozenset()

    def __contains__(self, user_id: str) -> bool:
        return self.hash_of(user_id) in self.hashes

    def hash_of(self, user_id: str) -> str:
        """The hash under which an id is known here."""
        return hashlib.sha256(f"{self.salt}{user_id}".encode()).hexdigest()


def erased_users(settings: Settings) -> ErasedUsers:
    """Everyone whose erasure was begun; ErasuresNotWhole where that cannot be known."""
    paths = sorted(settings.erasures_dir.glob("*.json"))
    salt, users = salt_of(settings) if paths else "", set[str]()
    for path in paths:
        users |= set(read_receipt(path, salt)["users"])
    return ErasedUsers(salt or salt_of(settings, ""), frozenset(users))


def salt_of(settings: Settings, otherwise: str | None = None) -> str:
    """The key of a folder; ErasuresNotWhole where there is none, unless a text stands for it."""
    path = settings.erasures_dir / SALT
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        if otherwise is not None and not path.exists():
            return otherwise
        raise ErasuresNotWhole(
            f"{path} cannot be read ({error}): the key of the erasures; {_REMEDY}"
        ) from error


def signature(values: Mapping[str, Any], salt: str) -> str:
    """The HMAC of a receipt's values with the key of the folder."""
    signed = {name: value for name, value in values.items() if name != SIGNATURE}
    text = json.dumps(signed, sort_keys=True, ensure_ascii=True)
    return hmac.new(salt.encode(), text.encode(), hashlib.sha256).hexdigest()


def read_receipt(path: Path, salt: str) -> dict[str, Any]:
    """The values of a receipt; ErasuresNotWhole where they are not what was signed."""
    try:
        values: dict[str, Any] = json.loads(path.read_bytes())
        if "user" in values and SIGNATURE not in values:  # of a version that did not sign
            return {"users": [path.stem], "begun": "", **values}
        if hmac.compare_digest(values[SIGNATURE], signature(values, salt)):
            return values
        problem = "it, or the key in erasures/salt, is not the one that it was signed with"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"it cannot be read: {error!r}"
    raise ErasuresNotWhole(f"the receipt {path} does not hold: {problem}; {_REMEDY}")
