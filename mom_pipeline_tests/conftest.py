"""What all tests share: a data folder, and the one real browser (Playwright starts only once)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mom_pipeline.core.threads import available_cores
from mom_pipeline_tests.data_folder import folder, lenient, new_folder  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Folders and files that take a minute and more.
_LONG = {
    "ui",
    "faults",
    "test_against_full.py",
    "test_bad_days.py",
    "test_dask.py",
    "test_day_gate.py",
    "test_engine.py",
    "test_erase.py",
    "test_graph.py",
    "test_notebooks.py",
    "test_one_product.py",
    "test_start.py",
    "test_tuning.py",
    "test_upgrade.py",
    "test_week.py",
}
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


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    if not CHROMIUM.exists():
        pytest.skip(f"the browser tests need {CHROMIUM}: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=CHROMIUM_ARGUMENTS
        )
        yield browser
        browser.close()


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores for `-n auto`: tests wait for servers, daemons and browsers."""
    return available_cores() + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: no worker waits for another at the end."""
    items.sort(key=lambda item: _LONG.isdisjoint(item.path.parts))
