"""The asset graph as the browser draws it: nodes, arrows and their colours."""

import re

from playwright.sync_api import FloatRect, Locator, Page, expect

from mom_pipeline_tests.ui.processes import UiServer

RUN_MILLISECONDS = 180_000
_TOUCHING = 6.0
_NUMBER = r"-?\d+(?:\.\d+)?"


def open_whole_graph(page: Page, server: UiServer) -> None:
    """All groups, unfolded by the link that the command printed, on a page wide enough."""
    page.set_viewport_size({"width": 4000, "height": 1900})
    page.goto(re.findall(r"unfolded: (\S+)", server.printed)[0])
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
            ends += [asset for asset, box in boxes.items() if _touches(box, x, y)]
        if len(ends) == 2:
            found.add((ends[0], ends[1]))
    return found


def _box(drawn: Locator) -> FloatRect:
    """The rectangle of a node in the coordinates of the drawing."""
    x, y, width, height = (
        float(drawn.get_attribute(key) or "nan") for key in ("x", "y", "width", "height")
    )
    return {"x": x, "y": y, "width": width, "height": height}


def _touches(box: FloatRect, x: float, y: float) -> bool:
    return (
        -_TOUCHING <= x - box["x"] <= box["width"] + _TOUCHING
        and -_TOUCHING <= y - box["y"] <= box["height"] + _TOUCHING
    )


def expect_green(page: Page, asset: str) -> None:
    """Wait until the last row of a node, its status, lies on green: materialized, every day."""
    status = node(page, asset).locator('[style*="--color-background-green"]')
    expect(status).to_be_visible(timeout=RUN_MILLISECONDS)
    colour = status.evaluate("row => getComputedStyle(row).backgroundColor")
    red, green, blue = [int(part) for part in re.findall(r"\d+", colour)[:3]]
    assert green > max(red, blue), colour
