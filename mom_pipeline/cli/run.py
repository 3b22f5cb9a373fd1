"""Runs of the pipeline in this process, through Dagster, with its history in the data folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import click
import dagster as dg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mom_pipeline.artifacts.freshness import days_between
from mom_pipeline.core.errors import MomError
from mom_pipeline.dagster_home import prepare_dagster_home
from mom_pipeline.settings import Settings

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class RunFailed(MomError):
    """A run of the pipeline did not end well."""


@contextmanager
def dagster_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance of the data folder: what the UI shows."""
    prepare_dagster_home(settings)
    with dg.DagsterInstance.get() as instance:
        yield instance


def run_days(
    settings: Settings,
    first: date,
    last: date,
    *,
    full: bool = False,
    only: Sequence[str] = (),
) -> str:
    """Materialize every asset, or only some, from first to last in one run, with a progress bar.

    Returns the id of the run. Raises RunFailed with the first error.
    """
    # Imported here: the days of the partitions are those of the settings of this moment.
    from mom_pipeline.definitions import ASSETS, defs
    from mom_pipeline.defs.automation import FULL_CONFIG, range_tags
    from mom_pipeline.defs.days import day_done
    from mom_pipeline.defs.partitions import DAILY

    for day in (first, last):
        if str(day) not in DAILY.get_partition_keys():
            raise click.UsageError(
                f"{day} is none of the days of the pipeline, {DAILY.get_first_partition_key()} to "
                f"{DAILY.get_last_partition_key()}; see [pipeline] in the settings"
            )
    total = (len(only) or len(ASSETS)) * len(days_between(first, last))
    job = defs.resolve_job_def("full_rebuild" if full else "daily_update")
    with dagster_instance(settings) as instance, _bar() as bar:
        task = bar.add_task("starting", total=total)
        token = day_done.set(lambda asset, day: bar.update(task, advance=1, description=asset))
        try:
            done = job.execute_in_process(
                instance=instance,
                tags=range_tags(first, last),
                run_config={**_QUIET, **(FULL_CONFIG if full else {})},
                raise_on_error=False,
                asset_selection=[dg.AssetKey(name) for name in only] or None,
            )
        finally:
            day_done.reset(token)
    if not done.success:
        raise RunFailed(_failure(done))
    return done.run_id


def _failure(done: dg.ExecuteInProcessResult) -> str:
    """The innermost message of the first step that failed."""
    for event in done.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error is not None and error.cause is not None:
                error = error.cause
            said = error.message.strip() if error is not None else "no message"
            return f"{event.step_key} failed: {said} (run {done.run_id})"
    return f"run {done.run_id} failed before any step; look at it with `mom-pipeline ui`"


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
