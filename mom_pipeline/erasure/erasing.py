"""Erasure of one user from storage in steps, each of which can be repeated; and receipts.

`data/erasures` holds a receipt for each person; `finished` is empty until the work is complete.
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Self

from mom_pipeline.artifacts.scratch import remove_left_behind
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import write_text
from mom_pipeline.erasure.log_lines import OwnLines, erase_lines, find_lines
from mom_pipeline.erasure.tables import (
    compact,
    erase_from_days,
    erase_rows,
    remove_pages,
    rows_of,
)
from mom_pipeline.pipeline.days import Days
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.erased import SALT, erased_users

Step = tuple[str, Callable[[], Mapping[str, int]]]


@dataclass(frozen=True)
class Receipt:
    """What an erasure did, without the id.

    removed: kind of storage -> lines, rows, files or arrays that were removed or rewritten.
    """

    user: str
    begun: str
    finished: str = ""
    removed: dict[str, int] = field(default_factory=dict)

    def adding(self, counts: Mapping[str, int]) -> Self:
        """Return the receipt with what a further step removed."""
        removed = {k: self.removed.get(k, 0) + counts.get(k, 0) for k in (*self.removed, *counts)}
        return replace(self, removed=removed)


class NobodyToErase(MomError):
    """Nobody of that id is stored."""


@dataclass(frozen=True)
class UserTraces:
    """What there is of a user before anything is removed.

    erased_before: an erasure was begun or finished earlier.
    """

    user_id: str
    rows: dict[str, int]
    files: list[OwnLines]
    erased_before: bool


def require_folder(settings: Settings, user_id: str) -> None:
    """Raise NobodyToErase for an empty id, or where there is no data folder."""
    if not user_id.strip():
        raise NobodyToErase("the id of a user cannot be empty; give it exactly as in the logs")
    if not settings.data_dir.is_dir():
        raise NobodyToErase(f"{settings.data_dir} does not exist; nothing was changed")


def find_user(settings: Settings, user_id: str) -> UserTraces:
    """Look for a user in the warehouse and the log files; nothing is changed.

    Raises NobodyToErase when there is no trace and no earlier erasure, WarehouseBusy when another
    process holds the warehouse.
    """
    require_folder(settings, user_id)
    warehouse = Warehouse(settings)
    with warehouse.connect() as connection:
        rows = rows_of(connection, user_id)
    files = find_lines(warehouse, user_id)
    before = user_id in erased_users(settings)
    if not (before or files or any(rows.values())):
        raise NobodyToErase(
            f"there is no user {user_id!r} in {settings.data_dir}; ids are compared exactly, "
            "capitals and spaces too. Nothing was changed"
        )
    return UserTraces(user_id, rows, files, before)


def storage_steps(settings: Settings, traces: UserTraces) -> Iterator[Step]:
    """The steps in their order: the sources first, so that nothing can be built with the user."""
    warehouse, user_id = Warehouse(settings), traces.user_id
    for own in traces.files:
        yield own.file.source_file, partial(erase_lines, warehouse, own, user_id)
    yield "warehouse", partial(erase_rows, warehouse, user_id)
    yield "days", partial(erase_from_days, Days(settings, warehouse))
    yield "pages and exports", partial(remove_pages, settings)
    left_behind = partial(remove_left_behind, settings, of_duckdb=True)
    yield "temporary files", lambda: {"temporary files": left_behind()}
    yield "warehouse file", partial(compact, warehouse)


def take_steps(
    settings: Settings, receipt: Receipt, steps: Iterator[Step], on_step: Callable[[str], None]
) -> Receipt:
    """Take every step and note in the receipt what it removed, so that a later run adds to it."""
    for name, step in steps:
        on_step(name)
        receipt = save_receipt(settings, receipt.adding({k: n for k, n in step().items() if n}))
    return receipt


def begin_receipt(settings: Settings, user_id: str) -> Receipt:
    """Remember, before anything is removed, that a user is to be erased.

    From now on no ingest takes the user's lines. An erasure that was interrupted is taken up
    with what it had counted, and one that was finished is opened again.
    """
    if not (settings.erasures_dir / SALT).exists():
        write_text(settings.erasures_dir / SALT, secrets.token_hex(32) + "\n")
    user = erased_users(settings).hash_of(user_id)
    receipt = Receipt(user, _now())
    with suppress(OSError, ValueError, TypeError):  # the name has the hash: a damaged one counts
        text = (settings.erasures_dir / f"{user}.json").read_text(encoding="utf-8")
        receipt = Receipt(**json.loads(text))
    return save_receipt(settings, replace(receipt, finished=""))


def finish_receipt(settings: Settings, receipt: Receipt) -> Receipt:
    """Note in the receipt that the work is complete."""
    return save_receipt(settings, replace(receipt, finished=_now()))


def save_receipt(settings: Settings, receipt: Receipt) -> Receipt:
    """Write a receipt, whole or not at all."""
    text = json.dumps(asdict(receipt), indent=2, sort_keys=True)
    write_text(settings.erasures_dir / f"{receipt.user}.json", text + "\n")
    return receipt


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
