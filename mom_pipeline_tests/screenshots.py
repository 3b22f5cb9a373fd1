"""The pictures of the README, made anew: `python -m mom_pipeline_tests.screenshots`.

The sample logs are computed in a folder of their own, and Chromium shows the pages that the
commands open, at twice their size: data/pictures/{explorer,report,graph}.png.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from mom_pipeline.dagster_home import CODE_LOCATION
from mom_pipeline_tests.conftest import CHROMIUM, CHROMIUM_ARGUMENTS
from mom_pipeline_tests.running import ROOT
from mom_pipeline_tests.serving.service import running_service
from mom_pipeline_tests.ui.graph_page import node, open_whole_graph
from mom_pipeline_tests.ui.processes import UiServer, running_ui

PICTURES = ROOT / "data" / "pictures"
_DRAWN_MILLISECONDS = 3_000
_MARGIN = 20


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory(prefix="mom-screenshots-") as place:
        data = Path(place) / "data"
        _run(data, "demo")
        _run(data, "report")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, headless=True, args=CHROMIUM_ARGUMENTS
            )
            with running_service(data) as service:
                _explorer(_page(browser, 1280, 900), f"http://127.0.0.1:{service.port}")
                _report(_page(browser, 1000, 1200), data)
            with running_ui(data, "--no-daemon", module=CODE_LOCATION) as server:
                _graph(_page(browser, 1440, 900), server)
            browser.close()


def _explorer(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(_DRAWN_MILLISECONDS)
    _shoot(page, "explorer")


def _report(page: Page, data: Path) -> None:
    newest = max((data / "reports").glob("2*.html"))
    page.goto(newest.as_uri())
    _shoot(page, "report")


def _graph(page: Page, server: UiServer) -> None:
    """The line of assets, its second half below the first: so it can be read in a page."""
    open_whole_graph(page, server)
    page.wait_for_timeout(_DRAWN_MILLISECONDS)
    drawn = [drawing.bounding_box() for drawing in page.locator("svg foreignObject").all()]
    boxes = [box for box in drawn if box and box["width"] > 1]
    middle = (node(page, "decomposition").bounding_box() or boxes[0])["x"] - _MARGIN
    halves = ([box for box in boxes if (box["x"] < middle) is before] for before in (True, False))
    rows = [Image.open(BytesIO(page.screenshot(clip=_around(half)))) for half in halves]
    stacked = Image.new("RGB", (max(r.width for r in rows), sum(r.height for r in rows)), "white")
    for row, top in zip(rows, (0, rows[0].height), strict=True):
        stacked.paste(row, (0, top))
    stacked.save(PICTURES / "graph.png", optimize=True)
    _tell("graph")


def _around(boxes: Sequence[FloatRect]) -> FloatRect:
    """A rectangle around others, with a margin."""
    left, top = (min(box[side] for box in boxes) - _MARGIN for side in ("x", "y"))
    right = max(box["x"] + box["width"] for box in boxes) + _MARGIN
    bottom = max(box["y"] + box["height"] for box in boxes) + _MARGIN
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def _shoot(page: Page, name: str) -> None:
    page.screenshot(path=PICTURES / f"{name}.png")
    _tell(name)


def _tell(name: str) -> None:
    path = PICTURES / f"{name}.png"
    sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:,.0f} kB\n")


def _page(browser: Browser, width: int, height: int) -> Page:
    size = {"width": width, "height": height}
    return browser.new_context(viewport=size, device_scale_factor=2).new_page()


def _run(data: Path, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "mom_pipeline", *words],
        env={**os.environ, "MOM_DATA_DIR": str(data)},
        check=True,
    )


if __name__ == "__main__":
    main()
