"""The pages in a real browser, on the toy definitions."""

import signal
from pathlib import Path

from playwright.sync_api import Page, Response, WebSocket, expect

from mom_pipeline_tests.dagster_history import history_in
from mom_pipeline_tests.ui.graph_page import arrows, expect_green, node, open_group
from mom_pipeline_tests.ui.graphql_requests import SECONDS_TO_RUN
from mom_pipeline_tests.ui.processes import UiServer, end_with_all_below, running_ui
from mom_pipeline_tests.ui.waiting import wait_until


def test_the_pages_are_whole_until_ctrl_c(page: Page, tmp_path: Path) -> None:
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    with running_ui(tmp_path / "data", "--port", "0") as server:
        materialize_from_the_graph(server, page, tmp_path)
        launch_a_backfill(server, page)
        read_the_log_of_a_run(server, page)
        assert [answer.url for answer in answers if answer.status >= 400] == []
        end_with_all_below(server, signal.SIGINT)  # while the page is open


def materialize_from_the_graph(ui_server: UiServer, page: Page, tmp_path: Path) -> None:
    open_group(page, ui_server, "toy")
    expect(node(page, "first_number")).to_be_visible()
    expect(node(page, "doubled_number")).to_be_visible()
    assert arrows(page, ["first_number", "doubled_number"]) == {("first_number", "doubled_number")}
    expect(node(page, "first_number").get_by_text("Never materialized")).to_be_visible()

    node(page, "first_number").get_by_text("first_number").click()
    page.get_by_role("button", name="Materialize selected").click()
    expect_green(page, "first_number")
    page.screenshot(path=tmp_path / "after.png")

    open_group(page, ui_server, "toy")
    expect(node(page, "doubled_number").get_by_text("Never materialized")).to_be_visible()
    expect_green(page, "first_number")


def launch_a_backfill(server: UiServer, page: Page) -> None:
    """Two of three days, from the page of the asset; it ends as a success."""
    page.goto(f"{server.address}/assets/daily_number?view=partitions")
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").first.fill("[2024-03-01...2024-03-02]")
    dialog.get_by_role("textbox").first.press("Enter")
    dialog.get_by_role("button", name="Launch").click()
    expect(dialog).to_be_hidden()
    with history_in(server.dagster_home) as instance:
        ended = lambda: [b for b in instance.get_backfills() if b.status.name.startswith("COMP")]  # noqa: E731
        wait_until(ended, SECONDS_TO_RUN, "the end of the backfill")
        assert [backfill.status.name for backfill in ended()] == ["COMPLETED_SUCCESS"]
    page.goto(f"{server.address}/assets/daily_number?view=partitions")
    expect(page.get_by_text("Materialized (2)")).to_be_visible()


def read_the_log_of_a_run(server: UiServer, page: Page) -> None:
    """The lines come over a websocket."""
    frames: list[str] = []

    def note(websocket: WebSocket) -> None:
        websocket.on("framereceived", lambda frame: frames.append(str(frame)))

    page.on("websocket", note)
    with history_in(server.dagster_home) as instance:
        run = instance.get_runs(limit=1)[0]
    page.goto(f"{server.address}/runs/{run.run_id}")
    expect(page.get_by_text(f"counted for {run.tags['dagster/partition']}")).to_be_visible()
    assert any("counted for" in frame for frame in frames)
