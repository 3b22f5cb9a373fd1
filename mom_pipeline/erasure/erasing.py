"""Erasure of users from storage in steps, each of which can be repeated."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial

from mom_pipeline.artifacts.scratch import remove_left_behind
from mom_pipeline.core.errors import MomError
from mom_pipeline.erasure.log_lines import OwnLines, erase_lines, find_lines
from mom_pipeline.erasure.receipts import Receipt
from mom_pipeline.erasure.search import wanted_users
from mom_pipeline.erasure.tables import (
    compact,
    erase_from_days,
    erase_rows,
    remove_pages,
    rows_of,
)
from mom_pipeline.groups.names import outdate_groups
from mom_pipeline.logs.decisions import keep_admitted
from mom_pipeline.pipeline.days import Days
from mom_pipeline.segments import USERS_FILE, erase_lines_of_users
from mom_pipeline.serving.events import EventStore
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.erased import erased_users

Step = tuple[str, Callable[[], Mapping[str, int] | None]]
# Steps that log files are rewritten in; the receipt is written after each.
_TURNS = 20


class NobodyToErase(MomError):
    """Nobody of these ids is stored."""


@dataclass(frozen=True)
class UserTraces:
    """What there is of users before anything is removed."""

    user_ids: list[str]
    unknown: list[str]  # ids of whom there is nothing
    rows: dict[str, int]
    files: list[OwnLines]
    erased_before: bool  # an erasure was begun or finished earlier


def require_folder(settings: Settings, user_ids: Collection[str]) -> None:
    """Raise NobodyToErase for an empty id or none, or where there is no data folder."""
    if not user_ids or not all(user_id.strip() for user_id in user_ids):
        raise NobodyToErase("the id of a user cannot be empty; give it exactly as in the logs")
    if not settings.data_dir.is_dir():
        raise NobodyToErase(f"{settings.data_dir} does not exist; nothing was changed")


def find_users(settings: Settings, user_ids: Collection[str]) -> UserTraces:
    """Look for users in warehouse and log files; NobodyToErase without a trace, WarehouseBusy."""
    require_folder(settings, user_ids)
    known = erased_users(warehouse := Warehouse(settings))
    with warehouse.connect() as connection, wanted_users(connection, user_ids):
        rows, stored = rows_of(connection)
    told, of_events = EventStore(settings).mentioned(user_ids)
    rows, files = rows | told, find_lines(warehouse, user_ids)
    mentioned = stored.union(of_events, *(own.users for own in files))
    before = {user_id for user_id in user_ids if user_id in known}
    there = [user_id for user_id in dict.fromkeys(user_ids) if user_id in mentioned | before]
    if not there:
        one = next(iter(user_ids))
        who = f"is no user {one!r}" if len(user_ids) == 1 else "are no users of these ids"
        raise NobodyToErase(
            f"there {who} in {settings.data_dir}; ids are compared exactly, "
            "capitals and spaces too. Nothing was changed"
        )
    unknown = sorted(set(user_ids) - set(there))
    return UserTraces(there, unknown, rows, files, bool(before))


def storage_steps(settings: Settings, traces: UserTraces, first: date) -> Iterator[Step]:
    """The steps, the sources first: nothing can be built with the users. first: computed again."""
    warehouse, users, files = Warehouse(settings), traces.user_ids, traces.files
    yield "events", partial(EventStore(settings).erase, users)
    yield USERS_FILE, partial(erase_lines_of_users, settings.data_dir, users)
    several = max(-(-len(files) // _TURNS), 1)
    for start in range(0, len(files), several):
        own = files[start : start + several]
        yield own[0].file.source_file, partial(erase_lines, warehouse, own, users)
    yield "warehouse", partial(erase_rows, warehouse, users)
    yield "decisions", partial(keep_admitted, warehouse, first)
    yield "days", partial(erase_from_days, Days(settings, warehouse), first)
    yield "groups", partial(outdate_groups, settings)
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
        receipt = receipt.adding(step() or {}).save(settings)
    return receipt
