"""Word of what went wrong, to a real server and a real command, from Dagster's own evaluation."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import dagster as dg
import pytest

from mom_pipeline.defs.alerts import AlertNotSent, send
from mom_pipeline.defs.build import build_defs
from mom_pipeline.settings import AlertSettings

from .conftest import MODEL, QUIET, Pipeline, day


@contextmanager
def webhook(status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on loopback, and the messages that it got."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", got
        finally:
            server.shutdown()
            thread.join()


def evaluate(
    name: str, pipeline: Pipeline, done: dg.ExecuteInProcessResult
) -> dg.SkipReason | None:
    """Let a sensor look at the end of a run."""
    ends = ("PIPELINE_SUCCESS", "PIPELINE_FAILURE")
    with dg.build_run_status_sensor_context(
        sensor_name=name,
        dagster_instance=pipeline.instance,
        dagster_run=done.dagster_run,
        dagster_event=[e for e in done.all_events if e.event_type_value in ends][-1],
    ) as context:
        sensor = build_defs(pipeline.root).get_sensor_def(name)
        return sensor(context if name == "check_alert" else context.for_run_failure())


def configure_alerts(pipeline: Pipeline, url: str) -> None:
    pipeline.configure("[matrix]", f'[alerts]\nwebhook = "{url}"\n[matrix]')


def test_without_anybody_to_notify_there_are_no_sensors(empty: Pipeline):
    assert {sensor.name for sensor in build_defs(empty.root).sensors} == {"log_file_sensor"}


def test_runs_of_others_are_not_ours(empty: Pipeline):
    @dg.asset
    def theirs() -> None:
        raise ValueError("their own matter")

    done = dg.materialize([theirs], instance=empty.instance, run_config=QUIET, raise_on_error=False)
    with webhook() as (url, got):
        configure_alerts(empty, url)
        assert "a run of others" in evaluate("failure_alert", empty, done).skip_message
    assert got == []


def test_a_failed_check_is_notified_with_its_day(copied: Pipeline):
    copied.configure("n_components = 3", "n_components = 20")
    done = copied.run(4, only=MODEL)
    with webhook() as (url, got):
        configure_alerts(copied, url)
        evaluate("check_alert", copied, done)
    (message,) = got
    assert message["days"] == str(day(4))
    assert message["run"] == done.run_id
    failed = {entry["check"]: entry for entry in message["checks"]}
    assert failed["enough_users"]["asset"] == "m2_statistics"
    assert failed["enough_users"]["severity"] == "WARN"
    assert failed["enough_users"]["day"] == str(day(4))
    assert "m2_statistics: enough_users" in message["text"]


def test_no_line_of_a_log_is_notified(empty: Pipeline):
    """Nor kept by Dagster: what a refused file holds is for `status` alone."""
    empty.deliver({f"{day(1)}.csv": b"lovelace,jazz-001,2024-03-01T10:00:00\n"})  # without a header
    done = empty.run(1, only=["raw_logs"])
    assert "lovelace" in empty.query("SELECT reason FROM refused_files")[0][0]
    assert not [c for c in done.get_asset_check_evaluations() if "lovelace" in str(c.description)]
    with webhook() as (url, got):
        configure_alerts(empty, url)
        evaluate("check_alert", empty, done)
    assert "files_ingested" in str(got)
    assert "lovelace" not in str(got)


def test_nothing_is_notified_where_every_check_passed(copied: Pipeline):
    done = copied.run(4, only=["raw_logs"])
    with webhook() as (url, got):
        configure_alerts(copied, url)
        assert "every check passed" in evaluate("check_alert", copied, done).skip_message
    assert got == []


def test_a_failed_run_is_notified_with_the_asset_that_failed(copied: Pipeline):
    with copied.warehouse.connect() as connection:
        connection.execute("DELETE FROM raw_logs WHERE delivery_day = '2024-03-04' AND line = 5")
    done = copied.run(4, succeeds=False)
    with webhook() as (url, got):
        configure_alerts(copied, url)
        evaluate("failure_alert", copied, done)
    (message,) = got
    assert message["assets"] == ["raw_logs"]
    assert "failed at raw_logs (2024-03-04), run " in message["text"]


def test_a_command_gets_the_message_and_both_are_tried(tmp_path):
    heard = tmp_path / "heard"
    program = f"import sys; open({str(heard)!r}, 'w').write(sys.stdin.read())"
    with webhook(status=500) as (url, got):
        alerts = AlertSettings(webhook=url, command=(sys.executable, "-c", program))
        with pytest.raises(AlertNotSent, match=r"alerts\.webhook must take .* 500"):
            send(alerts, {"text": "ä; rm -rf"})
    assert got == [{"text": "ä; rm -rf"}]
    assert json.loads(heard.read_text()) == {"text": "ä; rm -rf"}


@pytest.mark.parametrize("command", [(sys.executable, "-c", "exit(3)"), ("/nowhere/mail",)])
def test_a_command_that_fails_is_an_error(command: tuple[str, ...]):
    with pytest.raises(AlertNotSent, match=r"alerts\.command must end with code 0"):
        send(AlertSettings(command=command), {"text": "a day"})
