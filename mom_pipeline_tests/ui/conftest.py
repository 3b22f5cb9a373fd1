"""A running server and its pages in the browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from mom_pipeline_tests.ui.processes import UiServer, running_ui

MILLISECONDS_TO_APPEAR = 60_000
expect.set_options(timeout=MILLISECONDS_TO_APPEAR)


@pytest.fixture(scope="session")
def ui_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """`mom-pipeline ui` with its daemon on the toy definitions."""
    with running_ui(tmp_path_factory.mktemp("ui") / "data", "--port", "0") as server:
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page whose waits are bounded."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(MILLISECONDS_TO_APPEAR)
    yield context.new_page()
    context.close()
