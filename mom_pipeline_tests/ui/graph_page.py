"""The asset graph as the browser draws it: nodes and their colours."""

import re

from playwright.sync_api import Locator, Page, expect

from mom_pipeline_tests.ui.processes import UiServer

RUN_MILLISECONDS = 180_000


def open_whole_graph(page: Page, server: UiServer) -> None:
    """All groups, unfolded by the link that the command printed, on a page wide enough."""
    page.set_viewport_size({"width": 4000, "height": 1900})
    page.goto(re.findall(r"unfolded: (\S+)", server.printed)[0])
    expect(page.locator("svg foreignObject").first).to_be_visible()


def node(page: Page, asset: str) -> Locator:
    """The box of one asset."""
    name = page.locator(f'[data-tooltip="{asset}"]')
    return page.locator("svg foreignObject").filter(has=name)


def expect_green(page: Page, asset: str) -> None:
    """Wait until the last row of a node, its status, lies on green: materialized, every day."""
    status = node(page, asset).locator('[style*="--color-background-green"]')
    expect(status).to_be_visible(timeout=RUN_MILLISECONDS)
    colour = status.evaluate("row => getComputedStyle(row).backgroundColor")
    red, green, blue = [int(part) for part in re.findall(r"\d+", colour)[:3]]
    assert green > max(red, blue), colour
