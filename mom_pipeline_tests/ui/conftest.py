"""A running server and a real browser for the tests of the pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from mom_pipeline_tests.ui.processes import UiServer, running_ui

CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MILLISECONDS_TO_APPEAR = 60_000
expect.set_options(timeout=MILLISECONDS_TO_APPEAR)


@pytest.fixture(scope="session")
def ui_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """`mom-pipeline ui` with its daemon on the toy definitions."""
    with running_ui(tmp_path_factory.mktemp("ui") / "data", "--port", "0") as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"the browser tests need {CHROMIUM}: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=CHROMIUM_ARGUMENTS
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page whose waits are bounded."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(MILLISECONDS_TO_APPEAR)
    yield context.new_page()
    context.close()
