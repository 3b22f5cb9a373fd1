"""A page in the browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

MILLISECONDS_TO_APPEAR = 60_000
expect.set_options(timeout=MILLISECONDS_TO_APPEAR)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page whose waits are bounded."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(MILLISECONDS_TO_APPEAR)
    yield context.new_page()
    context.close()
