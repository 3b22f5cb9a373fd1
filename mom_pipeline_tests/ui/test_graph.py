"""The pipeline as a new user meets it in the browser: the graph, a day, a model."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Page, expect

from mom_pipeline.cli.sources import write_sample
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.ui.graph_page import arrows, expect_green, node, open_whole_graph
from mom_pipeline_tests.ui.graphql_requests import end_of_the_run
from mom_pipeline_tests.ui.processes import SECONDS_TO_STOP, UiServer, program_of, running_ui

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
    "evaluation_metrics",
    "promotion",
    "recommendations",
    "report",
]
LINE = ["log_files", *CHAIN]
LEAVES = {"model_in_use": "promotion", "model_comparison": "evaluation_metrics"}


@contextmanager
def pipeline_server(data_dir: Path) -> Iterator[UiServer]:
    """The pipeline on the first day of the sample logs, its only day: green means whole.

    A small model, for it is the pages that are looked at.
    """
    write_sample(load_settings(data_dir, {}), date.fromisoformat(DAY), n_days=1)
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
        os.kill(program_of(server, "dagster-daemon"), signal.SIGKILL)
        assert server.process.wait(SECONDS_TO_STOP) == 1
    assert "dagster-daemon must run beside the pages" in server.printed


def materialize_a_day(server: UiServer, page: Page, tmp_path: Path) -> None:
    open_whole_graph(page, server)
    drawn = [*LINE, *LEAVES]
    for asset in drawn:
        expect(node(page, asset)).to_be_visible()
    to_leaves = {(source, leaf) for leaf, source in LEAVES.items()}
    assert arrows(page, drawn) == {*pairwise(LINE), *to_leaves}
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
