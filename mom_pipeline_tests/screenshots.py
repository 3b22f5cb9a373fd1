"""The pictures of the README, made anew: `python -m mom_pipeline_tests.screenshots`.

The sample logs are computed in a folder of their own, and Chromium shows the pages that the
commands open, at twice their size: data/pictures/{explorer,report,graph}.png.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copy, copytree

from playwright.sync_api import Browser, Page, sync_playwright

from mom_pipeline.dagster_home import CODE_LOCATION
from mom_pipeline_tests.conftest import CHROMIUM, CHROMIUM_ARGUMENTS
from mom_pipeline_tests.serving.service import running_service
from mom_pipeline_tests.ui.graph_page import open_whole_graph
from mom_pipeline_tests.ui.processes import ROOT, running_ui

PICTURES = ROOT / "data" / "pictures"
_DRAWN_MILLISECONDS = 3_000


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory(prefix="mom-screenshots-") as place:
        data = Path(place) / "data"
        copytree(ROOT / "data" / "logs", data / "logs")
        copy(ROOT / "data" / "pipeline.toml", data)
        _run(data, "demo")
        _run(data, "report")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, headless=True, args=CHROMIUM_ARGUMENTS
            )
            with running_service(data) as service:
                _explorer(_page(browser, 1280, 900), f"http://127.0.0.1:{service.port}")
                _report(_page(browser, 1000, 1200), data)
            with running_ui(data, "--port", "0", "--no-daemon", module=CODE_LOCATION) as server:
                page = _page(browser, 1440, 900)
                open_whole_graph(page, server)
                page.wait_for_timeout(_DRAWN_MILLISECONDS)
                _shoot(page, "graph")
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


def _shoot(page: Page, name: str) -> None:
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
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
