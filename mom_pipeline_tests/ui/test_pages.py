"""The pages in a real browser, on the toy definitions."""

import signal
from pathlib import Path

from playwright.sync_api import Page, Response, expect

from mom_pipeline_tests.ui.graph_page import arrows, expect_green, node, open_group
from mom_pipeline_tests.ui.processes import UiServer, end_with_all_below, running_ui


def test_an_asset_is_materialized_from_the_graph_until_ctrl_c(page: Page, tmp_path: Path) -> None:
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    with running_ui(tmp_path / "data", "--port", "0") as server:
        materialize_from_the_graph(server, page, tmp_path)
        assert [answer.url for answer in answers if answer.status >= 400] == []
        end_with_all_below(server, signal.SIGINT)  # while the page is open


def materialize_from_the_graph(ui_server: UiServer, page: Page, tmp_path: Path) -> None:
    open_group(page, ui_server, "toy")
    expect(node(page, "first_number")).to_be_visible()
    expect(node(page, "doubled_number")).to_be_visible()
    assert arrows(page, ["first_number", "doubled_number"]) == {("first_number", "doubled_number")}
    expect(node(page, "first_number").get_by_text("Never materialized")).to_be_visible()
    page.screenshot(path=tmp_path / "before.png")

    node(page, "first_number").get_by_text("first_number").click()
    page.get_by_role("button", name="Materialize selected").click()
    expect_green(page, "first_number")
    page.screenshot(path=tmp_path / "after.png")

    open_group(page, ui_server, "toy")
    expect(node(page, "doubled_number").get_by_text("Never materialized")).to_be_visible()
    expect_green(page, "first_number")
    page.screenshot(path=tmp_path / "again.png")
