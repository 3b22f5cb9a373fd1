"""The page of a real day: written with the run, and by its command."""

import os
import re
import subprocess
import sys
from html import escape

import dagster as dg
import pytest
from click.testing import CliRunner

from mom_pipeline.cli.main import cli
from mom_pipeline.report.data import gather
from mom_pipeline.report.page import NothingToReport, newest_day, report_path, write_report
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.warehouse.recommendations import latest_items, list_of

from .conftest import N_DAYS, Pipeline, day, lines_of


def test_the_last_day_of_a_run_has_a_page(backfilled: Pipeline):
    pages = sorted(path.name for path in backfilled.settings.reports_dir.iterdir())
    assert pages == [f"{day(N_DAYS)}.html", "index.html"]
    shown = backfilled.metadata("report", N_DAYS)
    assert shown["path"] == str(report_path(backfilled.settings, day(N_DAYS)).resolve())
    assert shown["page"] == f"http://127.0.0.1:8000/reports/{day(N_DAYS)}.html"
    assert shown["users"] == gather(backfilled.settings, day(N_DAYS)).n_users
    (run,) = backfilled.instance.get_runs()
    said = [entry.user_message for entry in backfilled.instance.all_logs(run.run_id)]
    assert any("mom-pipeline report --day 2024-03-02" in line for line in said)


def test_a_day_is_green_when_its_page_is_there(backfilled: Pipeline, copied: Pipeline):
    asset = dg.AssetKey("report")
    assert backfilled.instance.get_materialized_partitions(asset) == {str(day(N_DAYS))}
    write_report(copied.settings, day(2))  # by the command, which Dagster knows nothing of
    copied.run(1, N_DAYS, only=["report"])
    pages = {path.stem for path in copied.settings.reports_dir.iterdir()} - {"index"}
    assert pages == {str(day(2)), str(day(N_DAYS))}
    assert copied.instance.get_materialized_partitions(asset) == pages
    copied.run(3, only=["report"])
    assert report_path(copied.settings, day(3)).exists()
    assert copied.metadata("report", 3)["users"] > 0


def test_the_page_shows_the_days_and_the_model(backfilled: Pipeline):
    facts = gather(backfilled.settings, day(N_DAYS))
    assert [entry.day for entry in facts.history] == [day(n) for n in range(1, N_DAYS + 1)]
    assert [entry.full for entry in facts.history] == [True] + [False] * (N_DAYS - 1)
    assert len(facts.components) == 3
    assert facts.components[0].weight == pytest.approx(
        backfilled.state.model(day(N_DAYS))[0].weights[0]
    )
    assert len({entry.delivery_day for entry in facts.deliveries}) == N_DAYS
    assert facts.metrics[-1].day == day(N_DAYS)
    assert facts.entropy is not None
    assert {"raw_logs", "decomposition", "evaluation_metrics"} <= facts.seconds.keys()
    text = report_path(backfilled.settings, day(N_DAYS)).read_text(encoding="utf-8")
    for component in facts.components:
        for name, _ in component.top_items:
            assert escape(name) in text


def test_the_page_shows_people_with_what_they_took_and_are_shown(backfilled: Pipeline):
    facts = gather(backfilled.settings, day(N_DAYS))
    assert len({person.user for person in facts.people}) == 5
    with backfilled.warehouse.reading() as connection:
        for person in facts.people:
            assert person.history[0] == latest_items(connection, person.user, day(N_DAYS), 1)[0]
            listed = [item for _, item, _ in list_of(connection, person.user, day(N_DAYS))]
            assert listed
            assert list(person.items) == listed[:8]
        counted = connection.execute(
            "SELECT count(DISTINCT item_id) FROM (FROM recommendations "
            "QUALIFY day = max(day) OVER (PARTITION BY user_id))"
        ).fetchone()
    assert facts.list_use is not None
    assert facts.list_use.coverage == pytest.approx(counted[0] / facts.n_items)
    assert 0 < facts.list_use.head_listed < 1
    assert 0.1 < facts.list_use.head_taken < 1


def test_the_page_says_what_differs_from_the_model_in_use(backfilled: Pipeline):
    registry = ModelRegistry(backfilled.settings.models_dir)
    change = gather(backfilled.settings, day(N_DAYS)).change
    assert change is not None
    assert change.version == registry.champion_version()
    assert change.reason == registry.history()[-1].reason
    earlier = gather(backfilled.settings, day(2)).change
    assert earlier is not None
    assert earlier.version == change.version
    assert earlier.day != day(2).isoformat()
    assert earlier.compared > 50
    # The days between taught it something, and not everything.
    assert earlier.kept is not None
    assert 0.1 < earlier.kept < 1


def test_any_day_with_a_model_can_have_one(copied: Pipeline):
    assert newest_day(copied.settings) == day(N_DAYS)
    path, facts = write_report(copied.settings, day(1))
    assert path.exists()
    assert facts.history[-1].day == day(1)
    assert all(component.drift is None for component in facts.components)
    with pytest.raises(NothingToReport, match=r"no model of 2024-02-29 .*; the newest is of"):
        write_report(copied.settings, day(0))


def test_a_page_of_an_earlier_model_is_written_anew(copied: Pipeline):
    path, _ = write_report(copied.settings, day(2))
    path.write_text("of an earlier model")
    copied.run(2, 3, only=["report"])
    assert "of an earlier model" not in path.read_text(encoding="utf-8")
    assert report_path(copied.settings, day(3)).exists()
    index = (copied.settings.reports_dir / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'href="([^"]+)"', index) == [
        f"{day(number)}.html" for number in (N_DAYS, 3, 2)
    ]


def test_a_page_goes_with_the_model_of_its_day(empty: Pipeline):
    empty.deliver({f"{day(1)}.csv": lines_of(day(1), "ada", "bob")})
    path = report_path(empty.settings, day(1))
    path.parent.mkdir()
    path.write_text("of an earlier model")
    empty.run(1)
    assert not path.exists()
    assert "href" not in (path.parent / "index.html").read_text(encoding="utf-8")
    assert not empty.instance.get_materialized_partitions(dg.AssetKey("report"))


def test_the_command_opens_the_page(copied: Pipeline, tmp_path):
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    environment = {**os.environ, "MOM_DATA_DIR": str(copied.root), "BROWSER": f"{browser} %s"}
    command = [sys.executable, "-m", "mom_pipeline", "report", "--day", str(day(4)), "--open"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    path = report_path(copied.settings, day(4))
    assert str(path) in done.stdout
    assert opened.read_text().strip() == path.resolve().as_uri()


def test_the_command_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("MOM_DATA_DIR", str(tmp_path))
    for options in ((), ("--day", "2024-03-01")):
        found = CliRunner().invoke(cli, ["report", *options])
        assert isinstance(found.exception, NothingToReport)
        assert "no model of any day yet" in str(found.exception)
        assert "mom-pipeline update" in str(found.exception)
    assert not (tmp_path / "reports").exists()
