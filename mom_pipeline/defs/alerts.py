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
from mom_pipeline.defs.daily import Names
from mom_pipeline.defs.partitions import days_in_words
from mom_pipeline.settings import AlertSettings

_SECONDS = 30


class AlertNotSent(MomError):
    """A message reached nobody."""


def alert_sensors(names: Names, alerts: AlertSettings, assets: set[dg.AssetKey]) -> list[Any]:
    """The sensors on runs of this pipeline alone; none where nobody is to be notified."""
    if not (alerts.webhook or alerts.command):
        return []
    running = dg.DefaultSensorStatus.RUNNING
    jobs = {names.of(job) for job in ("daily_update", "full_rebuild", "comparison")}

    def is_ours(run: dg.DagsterRun) -> bool:
        return bool((run.asset_selection or set()) & assets) or run.job_name in jobs

    def notify(run: dg.DagsterRun, text: str, **more: Any) -> None:
        """Send a message; `text` alone is what chat services show."""
        days = days_in_words(run.tags)
        text = f"mom-pipeline: {text} ({days})" if days else f"mom-pipeline: {text}"
        text = f"{text}, run {run.run_id}"
        send(alerts, {"text": text, "days": days, "run": run.run_id, **more})

    @dg.run_failure_sensor(name=names.of("failure_alert"), default_status=running)
    def failure_alert(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        """Say which run failed, on which days and at which asset."""
        run = context.dagster_run
        if not is_ours(run):
            return dg.SkipReason("a run of others")
        steps = [event.step_key for event in context.get_step_failure_events() if event.step_key]
        where = f"at {', '.join(steps)}" if steps else "before any asset"
        notify(run, f"{run.job_name} failed {where}", assets=steps)
        return None

    @dg.run_status_sensor(
        name=names.of("check_alert"),
        run_status=dg.DagsterRunStatus.SUCCESS,
        default_status=running,
    )
    def check_alert(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        """Say which checks failed on which days; the pages show what they saw."""
        run = context.dagster_run
        if not is_ours(run):
            return dg.SkipReason("a run of others")
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        logs = context.instance.all_logs(run.run_id, of_type=kind)
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
        found = sorted({f"{entry['asset']}: {entry['check']}" for entry in failed})
        text = f"{len(failed)} checks of {run.job_name} failed: {', '.join(found)}"
        notify(run, text, checks=failed)
        return None

    return [failure_alert, check_alert]


def send(alerts: AlertSettings, message: Mapping[str, Any]) -> None:
    """Post a message as JSON and give it to the command; AlertNotSent names who did not take it."""
    body, failures = json.dumps(message).encode(), []
    if alerts.webhook:
        # The settings admit http and https only.
        request = urllib.request.Request(  # noqa: S310
            alerts.webhook, data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        try:
            urllib.request.urlopen(request, timeout=_SECONDS).close()  # noqa: S310
        except OSError as error:
            # Its address may hold a secret.
            said = f"alerts.webhook must take the message, found {error}; look at its address"
            failures.append(said)
    if alerts.command:
        command = list(alerts.command)
        try:
            subprocess.run(command, input=body, timeout=_SECONDS, check=True, capture_output=True)  # noqa: S603
        except (OSError, subprocess.SubprocessError) as error:
            said = f"alerts.command must end with code 0 within {_SECONDS} s, found {error}"
            failures.append(said)
    if failures:
        raise AlertNotSent("; ".join(failures))
