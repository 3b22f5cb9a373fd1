"""The pipeline as a new user meets it in the browser: the graph, a day, a model."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from mom_pipeline_tests.ui.graph_page import arrows, expect_green, node, open_whole_graph
from mom_pipeline_tests.ui.graphql_requests import end_of_the_run
from mom_pipeline_tests.ui.processes import ROOT, SECONDS_TO_STOP, UiServer, daemon_of, running_ui

MODULE = "mom_pipeline.definitions"

DAY = "2024-03-01"
CHAIN = [
    "raw_logs",
    "interaction_matrix",
    "chosen_settings",
    "m2_statistics",
    "whitening_matrix",
    "whitened_tensor",
    "decomposition",
    "user_personalization",
    "recommendations",
    "evaluation_metrics",
    "promotion",
]
LINE = ["log_files", *CHAIN, "model_in_use"]
LEAVES = ["model_comparison", "report"]


@contextmanager
def pipeline_server(data_dir: Path) -> Iterator[UiServer]:
    """The pipeline on the first day of the sample logs, its only day: green means whole.

    A small model, for it is the pages that are looked at.
    """
    (data_dir / "logs").mkdir(parents=True)
    for path in (ROOT / "data/logs").glob(f"{DAY}*"):
        shutil.copy(path, data_dir / "logs")
    settings = {
        "MOM_PIPELINE__START_DATE": DAY,
        "MOM_PIPELINE__END_DATE": DAY,
        "MOM_MODEL__N_COMPONENTS": "3",
    }
    with running_ui(data_dir, "--port", "0", module=MODULE, **settings) as server:
        yield server


def test_a_day_is_materialized_and_looked_at_until_the_daemon_dies(
    page: Page, tmp_path: Path
) -> None:
    with pipeline_server(tmp_path / "data") as server:
        materialize_a_day(server, page, tmp_path)
        look_at_the_model(server, page, tmp_path)
        os.kill(daemon_of(server), signal.SIGKILL)
        assert server.process.wait(SECONDS_TO_STOP) == 1
    assert "the daemon must run beside the pages" in server.printed


def materialize_a_day(server: UiServer, page: Page, tmp_path: Path) -> None:
    open_whole_graph(page, server)
    for asset in LINE + LEAVES:
        expect(node(page, asset)).to_be_visible()
    to_leaves = {("evaluation_metrics", leaf) for leaf in LEAVES}
    assert arrows(page, LINE + LEAVES) == {*pairwise(LINE), *to_leaves}
    page.screenshot(path=tmp_path / "graph.png")

    page.get_by_role("button", name="Materialize all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(DAY)
    dialog.get_by_role("textbox").press("Enter")
    page.screenshot(path=tmp_path / "launch.png")
    dialog.get_by_role("button", name="Launch").click()
    expect(dialog).to_be_hidden()
    page.goto("about:blank")  # a large graph under way is drawn over and over
    assert end_of_the_run(server) == "SUCCESS"

    open_whole_graph(page, server)
    for asset in CHAIN:
        expect_green(page, asset)
        expect(node(page, asset).get_by_text("100% filled")).to_be_visible()
    page.screenshot(path=tmp_path / "graph-green.png")


def look_at_the_model(server: UiServer, page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1440, "height": 1800})
    page.goto(f"{server.address}/assets/decomposition?view=partitions&partition={DAY}")
    components = page.get_by_role("table").filter(has=page.get_by_text("top_items", exact=True))
    expect(components.last).to_be_visible()
    assert components.last.locator("tbody tr").count() >= 2
    page.screenshot(path=tmp_path / "decomposition.png")
    page.get_by_text("[Show Markdown]").first.click()
    expect_picture(page.get_by_role("dialog").locator("img").first)
    page.screenshot(path=tmp_path / "picture.png")


def expect_picture(picture: Locator) -> None:
    """Wait for a picture that was really drawn, not only asked for."""
    expect(picture).to_be_visible()
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("picture => picture.naturalWidth") > 100
