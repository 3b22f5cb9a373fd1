"""What a command computed, as the pages show it: plots by day, checks, the run."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Response, expect

from mom_pipeline.dagster_home import CODE_LOCATION
from mom_pipeline_tests.defs.conftest import SETTINGS_FILE
from mom_pipeline_tests.ui.processes import UiServer, running_ui

N_DAYS, HORIZON = 6, 2


def mom(data_dir: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "mom_pipeline", *arguments],
        env={**os.environ, "MOM_DATA_DIR": str(data_dir)},
        capture_output=True,
        check=True,
    )


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Some days of logs up to yesterday, computed by the command: the pages plot recent days."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "pipeline.toml").write_text(SETTINGS_FILE)
    sizes = ("--days", str(N_DAYS), "--users", "300", "--items", "60", "--components", "3")
    first_day = datetime.now(tz=UTC).date() - timedelta(days=N_DAYS)
    mom(folder, "simulate", *sizes, "--events", "900", "--first-day", str(first_day))
    mom(folder, "demo")
    return folder


def test_the_pages_show_what_a_command_computed(page: Page, data_dir: Path) -> None:
    with running_ui(data_dir, "--port", "0", "--no-daemon", module=CODE_LOCATION) as server:
        every_evaluated_day_has_a_point(server, page)
        the_run_is_among_those_of_its_job(server, page)
        every_day_has_a_green_check(server, page)
        a_new_day_needs_no_reload(server, page)


def every_evaluated_day_has_a_point(server: UiServer, page: Page) -> None:
    answers: list[dict[str, Any]] = []

    def note(answer: Response) -> None:
        if (answer.request.post_data or "").find('"AssetPartitionEventsQuery"') >= 0:
            answers.append(answer.json())

    page.on("response", note)
    page.goto(f"{server.address}/assets/evaluation_metrics?view=overview")
    page.get_by_text("Plots", exact=True).click()
    expect(page.locator("canvas").first).to_be_visible()
    expect(page.get_by_text("recall_at_20", exact=True)).to_be_visible()
    drawn = json.dumps(answers[-1])
    assert drawn.count('"recall_at_20"') == N_DAYS - HORIZON


def the_run_is_among_those_of_its_job(server: UiServer, page: Page) -> None:
    page.goto(f"{server.address}/locations/{CODE_LOCATION}/jobs/daily_update/runs")
    expect(page.get_by_text("Success")).to_be_visible()
    yesterday = datetime.now(tz=UTC).date() - timedelta(days=1)
    first = yesterday - timedelta(days=N_DAYS - 1)
    expect(page.get_by_text(f"days: {first} to {yesterday}")).to_be_visible()


def every_day_has_a_green_check(server: UiServer, page: Page) -> None:
    page.goto(f"{server.address}/assets/decomposition?view=checks&checkDetail=split_half")
    expect(page.get_by_text("Execution history")).to_be_visible()
    page.get_by_text("Partitions", exact=True).last.click()
    expect(page.get_by_text(f"Passed ({N_DAYS})")).to_be_visible()
    expect(page.get_by_text("Missing (1)")).to_be_visible()  # today


def a_new_day_needs_no_reload(server: UiServer, page: Page) -> None:
    """A file of today, which a command takes in while the pages are open."""
    logs, today = server.data_dir / "logs", datetime.now(tz=UTC).date()
    (yesterday,) = logs.glob(f"{today - timedelta(days=1)}*")
    shutil.copy(yesterday, logs / yesterday.name.replace(yesterday.name[:10], str(today)))
    mom(server.data_dir, "update")
    page.goto(f"{server.address}/assets/decomposition?view=partitions")
    expect(page.get_by_text(f"Materialized ({N_DAYS + 1})")).to_be_visible()
    expect(page.get_by_text("Missing (0)")).to_be_visible()
