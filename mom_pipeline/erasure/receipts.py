"""Receipts: what an erasure removed, and the model before and after; signed, without any id.

`finished` is empty until the work is complete; until then the same erasure goes on.
"""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from mom_pipeline.core.files import write_text
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.erased import (
    SALT,
    SIGNATURE,
    ErasedUsers,
    erased_users,
    read_erased,
    read_receipt,
    salt_of,
    signature,
)

STAYS = (
    "figures of days before, which are sums and means over everybody, and decisions: days that "
    "were admitted or excluded",
    "what was written elsewhere: copies of the folder, exports and reports that were fetched, "
    "sums that were shared, tables in other databases, shards of `engine.shards_url`, alerts",
)


@dataclass(frozen=True)
class Receipt:
    """What an erasure did."""

    users: list[str]  # salted hashes
    begun: str
    finished: str = ""
    # kind of storage -> lines, rows, files or arrays removed or rewritten
    removed: dict[str, int] = field(default_factory=dict)
    # version, day, content and data of the model in use
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    stays: tuple[str, ...] = STAYS  # what an erasure leaves, in words
    readmitted: list[str] = field(default_factory=list)  # hashes of ids that may come again

    @property
    def name(self) -> str:
        """The same for the same people: an erasure that was interrupted is found again."""
        people = sorted({*self.users, *self.readmitted})
        joined = hashlib.sha256("".join(people).encode()).hexdigest()
        return people[0] if len(people) == 1 else joined

    def path(self, settings: Settings) -> Path:
        return settings.erasures_dir / f"{self.name}.json"

    def adding(self, counts: Mapping[str, int]) -> Self:
        """Return the receipt with what a further step removed."""
        return replace(self, removed=dict(+(Counter(self.removed) + Counter(counts))))

    def save(self, settings: Settings) -> Self:
        """Sign and write the receipt, whole or not at all."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        values[SIGNATURE] = signature(values, salt_of(settings.erasures_dir))
        write_text(self.path(settings), json.dumps(values, indent=2, sort_keys=True) + "\n")
        read_erased.cache_clear()
        return self

    @classmethod
    def read(cls, path: Path, salt: str) -> Self:
        """Read a receipt; ErasuresNotWhole where it is not what was signed."""
        values = read_receipt(path, salt)
        known = cls.__dataclass_fields__
        return cls(**{name: value for name, value in values.items() if name in known})


def begin_receipt(warehouse: Warehouse, user_ids: Collection[str]) -> Receipt:
    """Remember, before anything is removed, that users are erased: no ingest takes their lines."""
    settings, known = warehouse.settings, erased_users(warehouse)
    if not known.salt:
        write_text(settings.erasures_dir / SALT, secrets.token_hex(32) + "\n")
        known = ErasedUsers(salt_of(settings.erasures_dir))
    receipt = Receipt(sorted({known.hash_of(user) for user in user_ids}), now())
    if (path := receipt.path(settings)).exists():
        earlier = Receipt.read(path, known.salt)
        receipt = replace(earlier, users=receipt.users, readmitted=[], finished="", stays=STAYS)
    receipt.save(settings)
    erased_users(warehouse)  # which remembers it
    return receipt


def finished_receipt(warehouse: Warehouse, user_ids: Collection[str]) -> Receipt | None:
    """The receipt of an erasure of these people that is done, with the model made again."""
    known = erased_users(warehouse)
    path = Receipt(sorted({known.hash_of(user) for user in user_ids}), "").path(warehouse.settings)
    receipt = Receipt.read(path, known.salt) if known.salt and path.exists() else None
    if receipt is None or not receipt.finished or receipt.readmitted:
        return None
    return receipt if receipt.after or not receipt.before else None


def readmit(warehouse: Warehouse, user_id: str) -> bool:
    """Let an id that was erased come again, as a new person; whether it had been erased."""
    settings, known = warehouse.settings, erased_users(warehouse)
    if user_id not in known:
        return False
    own = known.hash_of(user_id)
    for path in settings.erasures_dir.glob("*.json"):
        receipt = Receipt.read(path, known.salt)
        if own in receipt.users:
            left = [user for user in receipt.users if user != own]
            replace(receipt, users=left, readmitted=[*receipt.readmitted, own]).save(settings)
    return True


def now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
