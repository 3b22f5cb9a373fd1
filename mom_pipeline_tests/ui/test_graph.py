"""The pipeline as a new user meets it in the browser: some days by a command, one more from here.

One folder, one server and its daemon for all of it: each takes long to begin.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response, WebSocket, expect

from mom_pipeline.dagster_home import CODE_LOCATION
from mom_pipeline_tests.cli.conftest import SIZES, mom
from mom_pipeline_tests.dagster_history import history_in
from mom_pipeline_tests.defs.conftest import SETTINGS_FILE
from mom_pipeline_tests.running import SECONDS_TO_STOP
from mom_pipeline_tests.ui.graph_page import expect_green, node, open_whole_graph
from mom_pipeline_tests.ui.graphql_requests import end_of_the_run
from mom_pipeline_tests.ui.processes import UiServer, program_of, running_ui

N_DAYS, HORIZON = 4, 2
CHAIN = [
    "raw_logs",
    "interaction_matrix",
    "chosen_settings",
    "m2_statistics",
    "whitening_matrix",
    "whitened_tensor",
    "decomposition",
    "user_personalization",
    "evaluation_metrics",
    "promotion",
    "recommendations",
    "report",
]
LEAVES = ["groups", "model_in_use", "model_comparison"]


@pytest.fixture
def today() -> date:
    """The last day of the pipeline, also when midnight comes."""
    return datetime.now(tz=UTC).date()


@pytest.fixture
def server(tmp_path: Path, today: date) -> Iterator[UiServer]:
    """Days up to yesterday, computed by the command: the pages plot recent days."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "pipeline.toml").write_text(f'{SETTINGS_FILE}[pipeline]\nend_date = "{today}"\n')
    mom(folder, "simulate", *SIZES, "--first-day", str(today - timedelta(days=N_DAYS)))
    mom(folder, "update")
    with running_ui(folder, module=CODE_LOCATION) as running:
        yield running


def test_days_of_a_command_and_one_more_from_the_graph_until_the_daemon_dies(
    page: Page, server: UiServer, today: date
) -> None:
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    the_run_of_the_command_is_among_those_of_its_job(server, page, today)
    materialize_a_new_day_from_the_graph(server, page, today)
    every_evaluated_day_has_a_point(server, page, answers)
    every_day_has_a_green_check(server, page)
    the_components_of_a_day_are_a_table(server, page, today)
    the_log_of_a_run_comes_over_a_websocket(server, page)
    assert [answer.url for answer in answers if answer.status >= 400] == []
    os.kill(program_of(server, "dagster-daemon"), signal.SIGKILL)
    assert server.process.wait(SECONDS_TO_STOP) == 1
    assert "dagster-daemon must run beside the pages" in server.printed


def the_run_of_the_command_is_among_those_of_its_job(
    server: UiServer, page: Page, today: date
) -> None:
    page.goto(f"{server.address}/locations/{CODE_LOCATION}/jobs/daily_update/runs")
    expect(page.get_by_text("Success")).to_be_visible()
    first, last = (today - timedelta(days=ago) for ago in (N_DAYS, 1))
    expect(page.get_by_text(f"days: {first} to {last}")).to_be_visible()


def materialize_a_new_day_from_the_graph(server: UiServer, page: Page, today: date) -> None:
    """A file of today, which comes while the pages are open."""
    open_whole_graph(page, server)
    for asset in ("log_files", *CHAIN, *LEAVES):
        expect(node(page, asset)).to_be_visible()

    logs = server.data_dir / "logs"
    (newest,) = logs.glob(f"{today - timedelta(days=1)}*")
    shutil.copy(newest, logs / newest.name.replace(newest.name[:10], str(today)))
    page.get_by_role("button", name="Materialize all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(str(today))
    dialog.get_by_role("textbox").press("Enter")
    dialog.get_by_role("button", name="Launch").click()
    expect(dialog).to_be_hidden()
    page.goto("about:blank")  # a large graph under way is drawn over and over
    assert end_of_the_run(server) == "SUCCESS"

    open_whole_graph(page, server)
    for asset in CHAIN:
        expect_green(page, asset)
        expect(node(page, asset).get_by_text("100% filled")).to_be_visible()


def every_evaluated_day_has_a_point(server: UiServer, page: Page, answers: list[Response]) -> None:
    page.goto(f"{server.address}/assets/evaluation_metrics?view=overview")
    page.get_by_text("Plots", exact=True).click()
    expect(page.locator("canvas").first).to_be_visible()
    expect(page.get_by_text("recall_at_20", exact=True)).to_be_visible()
    asked = '"AssetPartitionEventsQuery"'
    drawn = [answer for answer in answers if asked in (answer.request.post_data or "")][-1]
    assert json.dumps(drawn.json()).count('"recall_at_20"') == N_DAYS + 1 - HORIZON


def every_day_has_a_green_check(server: UiServer, page: Page) -> None:
    page.goto(f"{server.address}/assets/decomposition?view=checks&checkDetail=split_half")
    expect(page.get_by_text("Execution history")).to_be_visible()
    page.get_by_text("Partitions", exact=True).last.click()
    expect(page.get_by_text(f"Passed ({N_DAYS + 1})")).to_be_visible()


def the_components_of_a_day_are_a_table(server: UiServer, page: Page, today: date) -> None:
    page.set_viewport_size({"width": 1440, "height": 1800})
    page.goto(f"{server.address}/assets/decomposition?view=partitions&partition={today}")
    components = page.get_by_role("table").filter(has=page.get_by_text("top_items", exact=True))
    expect(components.last).to_be_visible()
    assert components.last.locator("tbody tr").count() >= 2


def the_log_of_a_run_comes_over_a_websocket(server: UiServer, page: Page) -> None:
    frames: list[str] = []

    def note(websocket: WebSocket) -> None:
        websocket.on("framereceived", lambda frame: frames.append(str(frame)))

    page.on("websocket", note)
    with history_in(server.dagster_home) as instance:
        run = instance.get_runs(limit=1)[0]
    page.goto(f"{server.address}/runs/{run.run_id}")
    expect(page.get_by_text("Finished execution of run").first).to_be_visible()
    assert any("Finished execution of run" in frame for frame in frames)
