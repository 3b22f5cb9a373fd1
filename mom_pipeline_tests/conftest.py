"""What all tests share: a data folder, and the one real browser (Playwright starts only once)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from mom_pipeline.core.threads import available_cores
from mom_pipeline_tests.data_folder import folder, lenient, new_folder  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A busy machine fails no test.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

# The files that take longest, in their order as measured.
_LONGEST = (
    "cli/test_week.py",
    "faults/test_faults.py",
    "datasets/test_corpus.py",
    "defs/test_engine.py",
    "cli/test_upgrade.py",
    "ui/test_graph.py",
    "cli/test_start.py",
    "defs/test_bad_days.py",
    "cli/test_erase.py",
    "serving/test_explorer_page.py",
    "datasets/test_datasets.py",
    "defs/test_graph.py",
    "engine/test_dask.py",
    "cli/test_compare.py",
    "ui/test_server.py",
)
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
    here = Path(__file__).parent
    order = {here / name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))
