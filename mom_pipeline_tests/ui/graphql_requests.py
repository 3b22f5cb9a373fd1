"""Requests to Dagster's GraphQL as browsers and attackers send them."""

import http.client
import json
from typing import Any
from urllib.parse import urlencode

from mom_pipeline_tests.dagster_history import history_in
from mom_pipeline_tests.running import wait_until
from mom_pipeline_tests.ui.processes import UiServer

SECONDS_TO_ANSWER = 60
SECONDS_TO_RUN = 180
LAUNCH_RUN = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename }
}
"""


def send(
    server: UiServer,
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Status and text of one request; `headers` may replace Host."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS_TO_ANSWER)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def launch_operation(server: UiServer, asset: str = "unrelated_number") -> dict[str, Any]:
    """A GraphQL operation that starts a run of one asset."""
    selector = {
        "repositoryLocationName": server.module,
        "repositoryName": "__repository__",
        "pipelineName": "__ASSET_JOB",
        "assetSelection": [{"path": [asset]}],
        "assetCheckSelection": [],
    }
    params = {"mode": "default", "selector": selector, "runConfigData": {}}
    return {"query": LAUNCH_RUN, "variables": {"params": params}}


def launch_by_post(
    server: UiServer, asset: str = "unrelated_number", **headers: str
) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"} | headers
    return send(server, "POST", "/graphql", json.dumps(launch_operation(server, asset)), headers)


def launch_by_get(server: UiServer, **headers: str) -> tuple[int, str]:
    operation = launch_operation(server)
    operation["variables"] = json.dumps(operation["variables"])
    return send(server, "GET", f"/graphql?{urlencode(operation)}", headers=headers)


def run_statuses(server: UiServer) -> list[str]:
    """States of the runs in the server's own storage, read beside it."""
    with history_in(server.dagster_home) as instance:
        return [run.status.value for run in instance.get_runs()]


def end_of_the_run(server: UiServer) -> str:
    """Wait for the end of the newest run; its state then."""
    with history_in(server.dagster_home) as instance:
        ended = lambda: instance.get_runs(limit=1)[0].is_finished  # noqa: E731
        wait_until(ended, "the end of the run", SECONDS_TO_RUN)
        return instance.get_runs(limit=1)[0].status.value


def count_runs(server: UiServer) -> int:
    return len(run_statuses(server))
