"""Word of what went wrong, to a webhook or a command: see `[alerts]` in the settings.

A message names asset, check, days and run, and not what an error or a check saw, which may quote
a line of a log: what has left the machine cannot be erased.
"""

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from typing import Any

import dagster as dg

from mom_pipeline.core.errors import MomError
from mom_pipeline.defs.partitions import SETTINGS
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.defs.run_tags import days_tag
from mom_pipeline.settings.sections import AlertSettings

_SECONDS = 30
_NOBODY = "neither alerts.webhook nor alerts.command is set in pipeline.toml"
# On as soon as the settings say whom to tell; the definitions are loaded with them.
_STATUS = (
    dg.DefaultSensorStatus.RUNNING
    if SETTINGS.alerts.webhook or SETTINGS.alerts.command
    else dg.DefaultSensorStatus.STOPPED
)


class AlertNotSent(MomError):
    """A message reached nobody."""


@dg.run_failure_sensor(
    default_status=_STATUS, description="A run that failed: tells `[alerts]` of the settings."
)
def failure_alert(
    context: dg.RunFailureSensorContext, data_folder: DataFolder
) -> dg.SkipReason | None:
    """Tell which run failed, on which days and at which asset."""
    steps = [event.step_key for event in context.get_step_failure_events() if event.step_key]
    where = f" at {', '.join(steps)}" if steps else " before any asset"
    run = context.dagster_run
    text = f"{run.job_name} failed{where}"
    return _tell(data_folder, _message(run, text, assets=steps))


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    default_status=_STATUS,
    description="Checks that failed in a run that did not: tells `[alerts]` of the settings.",
)
def check_alert(
    context: dg.RunStatusSensorContext, data_folder: DataFolder
) -> dg.SkipReason | None:
    """Tell which checks failed on which days; the pages show what they saw."""
    run = context.dagster_run
    logs = context.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    verdicts = [entry.get_dagster_event().asset_check_evaluation_data for entry in logs]
    failed = [
        {
            "asset": verdict.asset_key.to_user_string(),
            "check": verdict.check_name,
            "severity": verdict.severity.value,
            "day": verdict.partition,
        }
        for verdict in verdicts
        if not verdict.passed
    ]
    if not failed:
        return dg.SkipReason("every check passed")
    names = sorted({f"{entry['asset']}: {entry['check']}" for entry in failed})
    text = f"{len(failed)} checks of {run.job_name} failed: {', '.join(names)}"
    return _tell(data_folder, _message(run, text, checks=failed))


def _message(run: dg.DagsterRun, text: str, **more: Any) -> dict[str, Any]:
    """A message; `text` alone is what chat services show."""
    days = days_tag(run.tags).get("days", "")
    where = f"{text} ({days})" if days else text
    return {
        "text": f"mom-pipeline: {where}, run {run.run_id}",
        "days": days,
        "run": run.run_id,
    } | more


def _tell(data_folder: DataFolder, message: Mapping[str, Any]) -> dg.SkipReason | None:
    alerts = data_folder.settings.alerts
    if not (alerts.webhook or alerts.command):
        return dg.SkipReason(_NOBODY)
    send(alerts, message)
    return None


def send(alerts: AlertSettings, message: Mapping[str, Any]) -> None:
    """Post a message as JSON, and give it to the command on its standard input.

    Raises AlertNotSent when either did not take it; the other one is told in any case.
    """
    body, failures = json.dumps(message).encode(), []
    if alerts.webhook:
        failures += _post(alerts.webhook, body)
    if alerts.command:
        failures += _run(alerts.command, body)
    if failures:
        raise AlertNotSent("; ".join(failures))


def _post(url: str, body: bytes) -> list[str]:
    # The settings admit http and https only.
    request = urllib.request.Request(  # noqa: S310
        url, data=body, headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        urllib.request.urlopen(request, timeout=_SECONDS).close()  # noqa: S310
    except OSError as error:
        # Its address may hold a secret.
        return [f"alerts.webhook must take the message, found {error}; look at its address"]
    return []


def _run(command: tuple[str, ...], body: bytes) -> list[str]:
    try:
        subprocess.run(list(command), input=body, timeout=_SECONDS, check=True, capture_output=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return [f"alerts.command must end with code 0 within {_SECONDS} s, found {error}"]
    return []
