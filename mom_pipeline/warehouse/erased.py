"""Erased users as salted hashes, with which the ingest compares ids.

    erasures/salt           made once for a data folder
    erasures/<hash>.json    the receipt of an erasure

The hash is there so that a file that is delivered again does not bring a person back. It hides
the id from whoever reads it, not from whoever holds the salt and guesses the id.
"""

import hashlib
from dataclasses import dataclass

from mom_pipeline.settings import Settings

SALT = "salt"


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


def erased_users(settings: Settings) -> ErasedUsers:
    """Everyone whose erasure was begun."""
    folder = settings.erasures_dir
    salt = folder / SALT
    if not salt.exists():
        return ErasedUsers()
    hashes = tuple(sorted(path.stem for path in folder.glob("*.json")))
    return ErasedUsers(salt.read_text(encoding="ascii").strip(), hashes)
