"""`mom-pipeline erase`: remove a person from everything below the data folder."""

from dataclasses import asdict
from itertools import chain

import click

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.cli.run import RunFailed, bring_up_to_date
from mom_pipeline.cli.terminal import json_option, print_json, print_table, step_progress
from mom_pipeline.erasure.erasing import (
    UserTraces,
    begin_receipt,
    find_user,
    finish_receipt,
    require_folder,
    storage_steps,
    take_steps,
)
from mom_pipeline.erasure.search import files_with, is_distinctive
from mom_pipeline.erasure.tables import is_part_of_others
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

_WHO = "mom-pipeline erase"


@click.command()
@click.argument("user")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def erase(user: str, yes: bool, as_json: bool) -> None:
    """Remove a person from everything below the data folder. This cannot be undone.

    USER is the id as it is in the logs. Their lines leave the log files, the warehouse, the
    matrices, the moments, the lists, the export and the models; the days that keep their arrays
    are then computed again without them. Dagster's history never holds an id. A
    receipt without the id stays in data/erasures. Files that are delivered later do
    not bring the person back.

    It is refused while another command or a run writes to the folder. When it was interrupted,
    run it again: it goes on where it stopped.
    """
    settings = load_settings()
    require_folder(settings, user)
    if not yes:
        with writing_to(settings, _WHO):
            traces = find_user(settings, user)
        _ask(traces)  # without the lock: a person may take all night to answer
    with writing_to(settings, _WHO):
        _erase(settings, find_user(settings, user), as_json=as_json)


def _ask(traces: UserTraces) -> None:
    lines = sum(len(own.lines) for own in traces.files)
    said = f"{lines:,} lines in {len(traces.files):,} log files"
    rows = ", ".join(f"{n:,} rows of {table}" for table, n in traces.rows.items() if n)
    again = " (erased before)" if traces.erased_before else ""
    click.echo(f"User {traces.user_id!r}{again}: {said}" + (f"; {rows}" if rows else "") + ".")
    click.confirm("Remove all of it for good?", abort=True)


def _erase(settings: Settings, traces: UserTraces, *, as_json: bool) -> None:
    user, registry, failure = traces.user_id, ModelRegistry(settings.models_dir), ""
    models = ("models", lambda: {"models": len(registry.forget(user))})
    steps, receipt = chain(storage_steps(settings, traces), [models]), begin_receipt(settings, user)
    with step_progress("erasing") as show:
        receipt = take_steps(settings, receipt, steps, lambda name: show(name, 0.5))
    try:
        bring_up_to_date(settings)
    except (RunFailed, click.UsageError) as error:
        failure = str(error)
    receipt = finish_receipt(settings, receipt)
    left = _left(settings, user)
    if as_json:
        print_json({**asdict(receipt), "left_in": left, "not_computed": failure})
    else:
        print_table("Erased", ["place", "removed or rewritten"], sorted(receipt.removed.items()))
        click.echo(f"Receipt: {settings.erasures_dir / receipt.user}.json")
    if left:
        click.secho(
            f"The id is still in {', '.join(left)}: this is not what the pipeline wrote, "
            "or it was delivered meanwhile. Look at it, and erase again.",
            fg="red",
            err=True,
        )
    if failure:
        raise RunFailed(
            f"the person is erased, but the models were not computed again: {failure}. "
            "`mom-pipeline update` tries again"
        )
    if left:
        raise SystemExit(1)


def _left(settings: Settings, user: str) -> list[str]:
    """Where the bytes of the id still are; nothing is said of an id that is a part of others."""
    with Warehouse(settings).connect() as connection:
        if not is_distinctive(user) or is_part_of_others(connection, user):
            return []
    return files_with(settings.data_dir, user)
