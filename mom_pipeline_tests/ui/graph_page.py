"""The asset graph as the browser draws it: nodes, arrows and their colours."""

import re
from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect

from mom_pipeline_tests.ui.processes import UiServer

RUN_MILLISECONDS = 180_000
_TOUCHING = 6.0
_NUMBER = r"-?\d+(?:\.\d+)?"


@dataclass(frozen=True)
class Box:
    """The rectangle of a node in the coordinates of the drawing."""

    left: float
    top: float
    width: float
    height: float

    def touches(self, x: float, y: float) -> bool:
        return (
            self.left - _TOUCHING <= x <= self.left + self.width + _TOUCHING
            and self.top - _TOUCHING <= y <= self.top + self.height + _TOUCHING
        )


def open_group(page: Page, server: UiServer, group: str) -> None:
    page.goto(f"{server.address}/locations/{server.module}/asset-groups/{group}")


def open_whole_graph(page: Page, server: UiServer) -> None:
    """All groups, unfolded by the link that the command printed, on a page wide enough."""
    page.set_viewport_size({"width": 4000, "height": 1900})
    page.goto(server.graph_address)
    expect(page.locator("svg foreignObject").first).to_be_visible()


def node(page: Page, asset: str) -> Locator:
    """The box of one asset."""
    name = page.locator(f'[data-tooltip="{asset}"]')
    return page.locator("svg foreignObject").filter(has=name)


def arrows(page: Page, assets: list[str]) -> set[tuple[str, str]]:
    """Which node points to which, found where the drawn arrows start and end."""
    boxes = {asset: _box(node(page, asset)) for asset in assets}
    found = set()
    for path in page.locator("svg path[marker-end]").all():
        numbers = [float(n) for n in re.findall(_NUMBER, path.get_attribute("d") or "")]
        ends = []
        for x, y in (numbers[:2], numbers[-2:]):
            ends += [asset for asset, box in boxes.items() if box.touches(x, y)]
        if len(ends) == 2:
            found.add((ends[0], ends[1]))
    return found


def _box(drawn: Locator) -> Box:
    return Box(*(float(drawn.get_attribute(key) or "nan") for key in ("x", "y", "width", "height")))


def expect_green(page: Page, asset: str) -> None:
    """Wait until the last row of a node, its status, lies on green: materialized, every day."""
    status = node(page, asset).locator('[style*="--color-background-green"]')
    expect(status).to_be_visible(timeout=RUN_MILLISECONDS)
    colour = status.evaluate("row => getComputedStyle(row).backgroundColor")
    red, green, blue = [int(part) for part in re.findall(r"\d+", colour)[:3]]
    assert green > max(red, blue), colour
