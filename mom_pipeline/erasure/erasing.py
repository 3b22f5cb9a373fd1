"""All of storage without one user, step by step; a step that was done before finds nothing."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.core.errors import MomError
from mom_pipeline.erasure.days import erase_from_days
from mom_pipeline.erasure.erased_users import Receipt, erased_users, save_receipt
from mom_pipeline.erasure.exports import erase_from_exports, remove_pages
from mom_pipeline.erasure.history import erase_from_history
from mom_pipeline.erasure.log_lines import OwnLines, erase_lines, find_lines
from mom_pipeline.erasure.search import remove_left_behind
from mom_pipeline.erasure.tables import compact, erase_rows, rows_of
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Warehouse

Step = tuple[str, Callable[[], Mapping[str, int]]]


class UnknownUser(MomError):
    """Nobody of that id is stored."""


@dataclass(frozen=True)
class FoundUser:
    """What there is of a user before anything is removed.

    erased_before: an erasure was begun or finished earlier.
    """

    user_id: str
    rows: dict[str, int]
    files: list[OwnLines]
    erased_before: bool


def find_user(settings: Settings, user_id: str) -> FoundUser:
    """Look for a user in the warehouse and the log files; nothing is changed.

    Raises UnknownUser when there is no trace and no earlier erasure, WarehouseBusy when another
    process holds the warehouse.
    """
    if not user_id.strip():
        raise UnknownUser("the id of a user cannot be empty; give it exactly as in the logs")
    if not settings.data_dir.is_dir():
        raise UnknownUser(f"{settings.data_dir} does not exist; nothing was changed")
    warehouse = Warehouse(settings)
    with warehouse.connect() as connection:
        rows = rows_of(connection, user_id)
    files = find_lines(warehouse, user_id)
    before = user_id in erased_users(settings)
    if not (before or files or any(rows.values())):
        raise UnknownUser(
            f"there is no user {user_id!r} in {settings.data_dir}; ids are compared exactly, "
            "capitals and spaces too. Nothing was changed"
        )
    return FoundUser(user_id, rows, files, before)


def storage_steps(settings: Settings, found: FoundUser) -> Iterator[Step]:
    """The steps in their order: the sources first, so that nothing can be built with the user."""
    warehouse, user_id = Warehouse(settings), found.user_id
    for own in found.files:
        yield own.file.source_file, partial(erase_lines, warehouse, own, user_id)
    yield "warehouse", partial(_erase_rows, warehouse, user_id)
    yield "days", partial(erase_from_days, warehouse, DayState(settings))
    yield "exports", partial(erase_from_exports, warehouse, user_id)
    yield "reports and comparisons", partial(remove_pages, settings)
    home = settings.data_dir / "dagster_home"
    yield "history of runs", partial(erase_from_history, home, user_id)
    yield "temporary files", partial(remove_left_behind, settings)
    yield "warehouse file", partial(_compact, warehouse)


def take_steps(
    settings: Settings, receipt: Receipt, steps: Iterator[Step], told: Callable[[str], None]
) -> Receipt:
    """Take every step and note in the receipt what it removed, so that a later run adds to it."""
    for name, step in steps:
        told(name)
        receipt = save_receipt(settings, receipt.adding({k: n for k, n in step().items() if n}))
    return receipt


def _erase_rows(warehouse: Warehouse, user_id: str) -> Counter[str]:
    with warehouse.connect() as connection:
        return erase_rows(connection, user_id)


def _compact(warehouse: Warehouse) -> Counter[str]:
    compact(warehouse)
    return Counter({"warehouse files written anew": 1})
