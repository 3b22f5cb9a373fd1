"""Erased users as salted hashes, with which the ingest compares ids.

    erasures/salt         made once for a data folder: the key of its hashes and receipts
    erasures/NAME.json    the receipt of an erasure, signed with it (`erasure.receipts`)

The hash is there so that a file that is delivered again does not bring a person back. It hides
the id from whoever reads it, not from whoever holds the salt and guesses the id.
"""

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mom_pipeline.errors import MomError
from mom_pipeline.warehouse.connection import Connection, Warehouse, scalar

SALT, SIGNATURE = "salt", "hmac"
_REMEDY = (
    "put erasures/ back from a copy; until then no log file is ingested, since whoever was erased "
    "might come back"
)


class ErasuresNotWhole(MomError):
    """The salt or a receipt is gone or was changed: nobody can tell who was erased."""


@dataclass(frozen=True)
class ErasedUsers:
    """What the ingest compares with."""

    salt: str = ""
    hashes: frozenset[str] = frozenset()  # sha256(salt || id) of everyone who was erased
    receipts: frozenset[str] = frozenset()  # their names

    def __contains__(self, user_id: str) -> bool:
        return self.hash_of(user_id) in self.hashes

    def hash_of(self, user_id: str) -> str:
        """The hash under which an id is known here."""
        return hashlib.sha256(f"{self.salt}{user_id}".encode()).hexdigest()


def erased_users(warehouse: Warehouse) -> ErasedUsers:
    """Everyone whose erasure was begun; ErasuresNotWhole where a receipt that was seen is gone."""
    folder = warehouse.settings.erasures_dir
    states = [path.stat() for path in (folder, folder / SALT) if path.exists()]
    erased = read_erased(folder, tuple((state.st_mtime_ns, state.st_size) for state in states))
    with warehouse.opened() as connection:
        if gone := receipts_gone(connection, erased.receipts):
            raise ErasuresNotWhole(gone)
        if scalar(connection, "SELECT count(*) FROM erasures") < len(erased.receipts):
            names = {"names": sorted(erased.receipts)}
            new = "SELECT unnest($names::VARCHAR[]) EXCEPT FROM erasures"
            connection.execute(f"INSERT INTO erasures {new}", names)
    return erased


def receipts_gone(connection: Connection, present: Collection[str]) -> str:
    """Which of the receipts that the warehouse has seen are not present; "" for none."""
    seen = {name for (name,) in connection.execute("FROM erasures").fetchall()}
    if gone := sorted(seen.difference(present)):
        named = f"such as erasures/{gone[0]}.json"
        return f"{len(gone):,} of {len(seen):,} receipts are gone, {named}; {_REMEDY}"
    return ""


def receipts_in(folder: Path) -> set[str]:
    """The names of the receipts."""
    return {path.stem for path in folder.glob("*.json")}


@lru_cache(maxsize=1)
def read_erased(folder: Path, states: tuple[tuple[int, int], ...]) -> ErasedUsers:
    """Read all receipts, once for each state of the folder and its key."""
    paths = sorted(folder.glob("*.json"))
    salt, users = salt_of(folder, None if paths else ""), set[str]()
    for path in paths:
        users |= set(read_receipt(path, salt)["users"])
    return ErasedUsers(salt, frozenset(users), frozenset(receipts_in(folder)))


def salt_of(folder: Path, otherwise: str | None = None) -> str:
    """The key of the erasures; ErasuresNotWhole where there is none, and no text stands for it."""
    path = folder / SALT
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
        problem = f"it cannot be read: {error!r:.120}"
    remedy = f"; {_REMEDY}" if path.parent.name == "erasures" else ""  # a copy stops nothing
    raise ErasuresNotWhole(f"the receipt {path} does not hold: {problem}{remedy}")
