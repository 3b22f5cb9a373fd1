"""`mom-pipeline erase`: remove people from everything below the data folder."""

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import date, timedelta
from itertools import chain
from pathlib import Path

import click

from mom_pipeline.artifacts.lock import LOCK, writing_to
from mom_pipeline.cli.ask import ids_in
from mom_pipeline.cli.run import RunFailed, run_days
from mom_pipeline.cli.terminal import json_option, print_json, print_table, progress_bar, warn
from mom_pipeline.core.errors import DamagedModel, MomError
from mom_pipeline.erasure.erasing import (
    NobodyToErase,
    UserTraces,
    find_users,
    require_folder,
    storage_steps,
    take_steps,
)
from mom_pipeline.erasure.receipts import Receipt, begin_receipt, finished_receipt, now, readmit
from mom_pipeline.erasure.refit import content_of, recomputed, refit, served_day
from mom_pipeline.erasure.search import files_with, is_distinctive, wanted_users
from mom_pipeline.erasure.tables import parts_of_others, rows_of
from mom_pipeline.groups.names import forget_absent_groups
from mom_pipeline.serving.registry import ModelRegistry, NoChampion, UnknownVersion
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.erased import salt_of

_WHO = "mom-pipeline erase"
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_NAMED = 5


@click.command()
@click.argument("user", required=False)
@click.option("--file", "file", type=_FILE, help="Many people: a text file with one id a line.")
@click.option("--readmit", "again", is_flag=True, help="USER may come again, as a new person.")
@click.option("--verify", "receipt", type=_FILE, help="Check a receipt, and what it says.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def erase(
    user: str | None,
    file: Path | None,
    again: bool,
    receipt: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove people from everything below the data folder. This cannot be undone.

    USER is the id as it is in the logs. Their lines leave the log files, the warehouse, the
    arrays, the lists, the export and the models; the model in use is then fitted to the rows that
    are left, settings chosen anew, and replaces all versions before the command returns. A signed
    receipt without the id stays in data/erasures. Files that are delivered later do not bring a
    person back, unless `--readmit` lets the id come again.

    It is refused while another command or a run writes to the folder. When it was interrupted,
    run it again: it goes on where it stopped. `--verify RECEIPT` checks that a receipt is the one
    that was signed here, and computes the model of its day again from the log files.

    \b
    Examples:
      mom-pipeline erase hugo-00553
      mom-pipeline erase --file ids.txt --yes
      mom-pipeline erase --verify data/erasures/0123abcd.json
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    if sum(given is not None for given in (user, file, receipt)) != 1:
        raise click.UsageError("give the id of a USER, --file with ids, or --verify a RECEIPT")
    if receipt is not None:
        _verify(settings, receipt, as_json=as_json)
        return
    users = [str(user)] if file is None else _each_once(file)
    require_folder(settings, users)
    if again:
        with writing_to(settings, _WHO):
            if not sum(readmit(Warehouse(settings), one) for one in users):
                raise NobodyToErase("nobody of that id was erased; nothing was changed")
        click.echo("Lines of files that are delivered from now on count again.")
        return
    with writing_to(settings, _WHO):
        traces = find_users(settings, users)
        if done := _done_before(settings, traces):
            receipt = done.path(settings)
            click.echo(f"Erased before, {done.finished}; nothing of it is left. Receipt: {receipt}")
            return
    if not yes:
        _ask(traces)  # without the lock: a person may take all night to answer
    with writing_to(settings, _WHO):
        _erase(settings, find_users(settings, users), as_json=as_json)


def _each_once(file: Path) -> list[str]:
    ids = Counter(line for line in ids_in(file) if line.strip())
    if twice := [user for user, n in ids.items() if n > 1]:
        warn(f"{len(twice):,} ids stand in {file.name} more than once; each counts once.")
    if not ids:
        raise NobodyToErase(f"{file} has no id; nothing was changed")
    return list(ids)


def _done_before(settings: Settings, traces: UserTraces) -> Receipt | None:
    """The receipt of an erasure that is done and whose people did not come again."""
    if traces.files or any(traces.rows.values()):
        return None
    done = finished_receipt(Warehouse(settings), traces.user_ids)
    registry = ModelRegistry(settings.models_dir)
    return done if done and not _left(settings, registry, traces.user_ids) else None


def _ask(traces: UserTraces) -> None:
    lines = sum(len(own.lines) for own in traces.files)
    said = f"{lines:,} lines in {len(traces.files):,} log files"
    rows = ", ".join(f"{n:,} rows of {table}" for table, n in traces.rows.items() if n)
    again = " (erased before)" if traces.erased_before else ""
    ids = traces.user_ids
    who = f"User {ids[0]!r}" if len(ids) == 1 else f"{len(ids):,} users"
    _name_unknown(traces)
    click.echo(f"{who}{again}: {said}" + (f"; {rows}" if rows else "") + ".")
    try:
        sure = click.confirm("Remove all of it for good?")
    except click.Abort:
        raise click.ClickException("nobody answered, nothing was removed; --yes does it") from None
    if not sure:
        raise click.Abort


def _name_unknown(traces: UserTraces) -> None:
    if traces.unknown:
        named = ", ".join(map(repr, traces.unknown[:_NAMED]))
        more = ", …" if len(traces.unknown) > _NAMED else ""
        warn(f"{len(traces.unknown):,} ids are not there, and are skipped: {named}{more}")


def _erase(settings: Settings, traces: UserTraces, *, as_json: bool) -> None:
    users, registry = traces.user_ids, ModelRegistry(settings.models_dir)
    _name_unknown(traces)
    served, last = served_day(settings, registry)
    first = (served or date.max) - timedelta(days=settings.evaluation.horizon_days)
    receipt = begin_receipt(Warehouse(settings), users)
    if not receipt.before:
        receipt = replace(receipt, before=content_of(registry))
    models = ("models", lambda: {"models": registry.forget(users)})
    with progress_bar("erasing") as show:
        steps = chain([models], storage_steps(settings, traces, first))
        receipt = take_steps(settings, receipt, steps, lambda name: show(name, 0.5))
    failure = ""
    if served and last:
        try:
            refit(settings, first, served, last, run_days)
        except (MomError, click.UsageError) as error:
            failure = str(error)
    if not failure:
        receipt = receipt.adding(forget_absent_groups(settings))
    after = {} if failure else content_of(registry)
    receipt = replace(receipt, after=after, finished=now()).save(settings)
    left = _left(settings, registry, users)
    if as_json:
        unknown = {"unknown": traces.unknown}
        print_json({**asdict(receipt), **unknown, "left_in": left, "not_computed": failure})
    else:
        print_table("Erased", ["place", "removed or rewritten"], sorted(receipt.removed.items()))
        click.echo("What stays: " + "; ".join(receipt.stays) + ".")
        click.echo(f"Receipt: {receipt.path(settings)}")
    if left:
        click.secho(
            f"The id is still in {', '.join(left)}: this is not what the pipeline wrote, "
            "or it was delivered meanwhile. Look at it, and erase again.",
            fg="red",
            err=True,
        )
    if failure:
        raise RunFailed(
            f"the erasure is done, but the models were not computed again: {failure}. "
            "`mom-pipeline erase` with the same ids tries again"
        )
    if left:
        raise SystemExit(1)


def _left(settings: Settings, registry: ModelRegistry, users: Collection[str]) -> list[str]:
    """Where ids still are, by value and by their bytes.

    Nothing is said of the bytes of an id that is a part of others, nor of the lock: its numbers
    are those of a process.
    """
    with Warehouse(settings).connect() as connection, wanted_users(connection, users):
        sought = set(filter(is_distinctive, users)) - parts_of_others(connection)
        _, stored = rows_of(connection)
    found = [settings.warehouse_path.name] if stored else []
    with suppress(NoChampion, DamagedModel, UnknownVersion):
        known = registry.champion().user_positions
        found += ["models"] if any(user in known for user in users) else []
    by_bytes = files_with(settings.data_dir, sought) if sought else []
    return sorted({*found, *by_bytes} - {LOCK})


def _verify(settings: Settings, path: Path, *, as_json: bool) -> None:
    """Check a receipt against the key of the folder, its model, and the log files."""
    receipt = Receipt.read(path, salt_of(settings.erasures_dir))
    if not receipt.finished:
        raise MomError("the erasure was begun and not finished: run it again with the same ids")
    found, problem = recomputed(settings, receipt, run_days)
    checks = {"signed": True, "people": len(receipt.users), "removed": receipt.removed}
    if as_json:
        print_json({**checks, "same_model": found, "problem": problem, **asdict(receipt)})
    else:
        click.echo(
            f"Signed with the key of this folder: {len(receipt.users):,} people, finished "
            f"{receipt.finished}."
        )
        click.echo(
            problem
            or f"The model of {receipt.after['day']}, computed again from the log files, is the "
            f"one of the receipt ({receipt.after['content'][:12]})."
        )
    if found is False:
        raise SystemExit(1)
