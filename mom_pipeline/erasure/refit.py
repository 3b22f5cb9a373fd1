"""The model in use without those who were erased: fitted in full, as in a folder without them."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.erasure.receipts import Receipt
from mom_pipeline.logs.decisions import unusual_days
from mom_pipeline.logs.logfiles import discover, last_day
from mom_pipeline.pipeline.days import Days
from mom_pipeline.serving.lists import renew_lists
from mom_pipeline.serving.registry import ModelRegistry, NoChampion, UnknownVersion
from mom_pipeline.settings import SETTINGS_FILE, Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.lists import metrics_until, replace_metrics
from mom_pipeline.warehouse.matrix import logs_fingerprint

# What is made of the log files; decisions about days and files are taken over.
_MADE = (
    *("raw_logs", "quarantine", "ingest_ledger", "user_dictionary", "item_dictionary"),
    *("recommendations", "materializations", "runs", "evaluation_metrics"),
)


# Computes the assets of some days, or `only` some of them: settings, first, last, full, anew, only.
Run = Callable[..., None]


def served_day(settings: Settings, registry: ModelRegistry) -> tuple[date | None, date | None]:
    """The days of the model in use and of the newest matrix, within the pipeline's; or None."""
    registry.set_aside_pointer()
    first, _ = settings.first_and_last_day()
    last = last_day(settings, discover(settings.logs_dir).files)
    days = [day for day in Days(settings).computed() if first <= day <= last]
    with Warehouse(settings).reading() as connection:
        unusual = unusual_days(connection, settings)
    usual = [day for day in days if day not in unusual] or days
    champion, newest = registry.champion_version(), max(days, default=None)
    known = champion is not None and date.fromisoformat(champion[:10]) in days
    return (date.fromisoformat(str(champion)[:10]) if known else max(usual, default=None)), newest


def refit(settings: Settings, first: date, served: date, last: date, run: Run) -> None:
    """Compute the days still to be evaluated, and put in use a full fit, whatever the gate says."""
    registry, warehouse = ModelRegistry(settings.models_dir), Warehouse(settings)
    with _keeping_metrics(warehouse, first, served):
        before = [day for day in Days(settings).computed() if first <= day < served]
        if before:
            run(settings, before[0], before[-1])
        run(settings, served, served, full=True, anew=True)
        registry.leave_only(version_of(settings, registry, served), "made without who was erased")
        if served < last:
            run(settings, served + timedelta(days=1), last, full=True)
        try:
            renew_lists(settings, warehouse)
        except NoChampion:
            with warehouse.connect() as connection:
                connection.execute("DELETE FROM recommendations")


def version_of(settings: Settings, registry: ModelRegistry, day: date) -> str | None:
    """The version of the model that was made of a day as it is now; None where there is none."""
    fit = Days(settings).made.get(("decomposition", day))
    for entry in reversed(registry.versions()):
        made = entry.manifest.parents.get("decomposition") if entry.manifest else None
        if fit is not None and made == fit.version and not entry.damage:
            return entry.version
    return None


@contextmanager
def _keeping_metrics(warehouse: Warehouse, first: date, until: date) -> Iterator[None]:
    """Means over everybody of past days stay where their models cannot be evaluated again."""
    with warehouse.reading() as connection:
        before = [row for row in metrics_until(connection, until) if row.day >= first]
    try:
        yield
    finally:
        with warehouse.connect() as connection:
            there = {row.day for row in metrics_until(connection, until)}
            for day in {row.day for row in before} - there:
                replace_metrics(connection, day, [row for row in before if row.day == day])


def content_of(registry: ModelRegistry) -> dict[str, str]:
    """What the model in use is made of, in hashes."""
    try:
        served = registry.champion()
    except (NoChampion, DamagedModel, UnknownVersion):
        return {}
    manifest = served.manifest
    what = {"version": manifest.version, "day": manifest.day, "data": manifest.data}
    return {**what, "content": served.content_hash}


def recomputed(settings: Settings, receipt: Receipt, run: Run) -> tuple[bool | None, str]:
    """Whether the model of a receipt comes out again; None, and why, where that cannot be asked."""
    after = receipt.after
    if not after:
        return None, "No model was in use after the erasure: there is nothing to compute again."
    day = date.fromisoformat(after["day"])
    with Warehouse(settings).reading() as connection:
        if logs_fingerprint(connection, day) != after["data"]:
            return None, (
                f"The rows up to {day} have changed since, by another erasure, a late or corrected "
                "file or a decision: the model of the receipt cannot be computed again."
            )
    with TemporaryDirectory(prefix="mom-verify-") as place:
        copy = _copied(settings, Path(place))
        earliest = min((file.day for file in discover(copy.logs_dir).files), default=day)
        first = max(earliest, copy.first_and_last_day()[0])
        if first < day:
            run(copy, first, day - timedelta(days=1), only=("raw_logs",))
        run(copy, day, day, full=True, anew=True)
        with Warehouse(copy).reading() as connection:
            if logs_fingerprint(connection, day) != after["data"]:
                return None, (
                    f"Files of rows up to {day} are no longer in the logs folder: the model of "
                    "the receipt cannot be computed again."
                )
        registry = ModelRegistry(copy.models_dir)
        found = {registry.load(name).content_hash for name in registry.names()}
    if after["content"] in found:
        return True, ""
    return False, f"Computed again from the log files, the model of {day} is another one."


def _copied(settings: Settings, folder: Path) -> Settings:
    """A folder with the log files, the erasures, the settings and the decisions of another."""
    for source in (settings.logs_dir, settings.erasures_dir):
        shutil.copytree(source, folder / source.name, copy_function=_linked)
    with suppress(FileNotFoundError):
        shutil.copy2(settings.data_dir / SETTINGS_FILE, folder)
    shutil.copy2(settings.warehouse_path, folder)
    copy = load_settings(folder)
    with Warehouse(copy).connect() as connection:
        for table in _MADE:
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
    return copy


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
