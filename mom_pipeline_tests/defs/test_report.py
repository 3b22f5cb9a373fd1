"""The page of a real day: written with the run, and by its command."""

import re
from datetime import date
from html import escape

import dagster as dg
from click.testing import CliRunner

from mom_pipeline.cli.main import cli
from mom_pipeline.report.data import NothingToReport, gather
from mom_pipeline.report.page import newest_day, report_path, write_report
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import PERSON, ModelRegistry
from mom_pipeline.serving.served_model import MODEL

from .conftest import N_DAYS, Pipeline, day, lines_of


def test_the_last_day_of_a_run_has_a_page(backfilled: Pipeline):
    pages = sorted(path.name for path in backfilled.settings.reports_dir.iterdir())
    assert pages == [f"{day(N_DAYS)}.html", "index.html"]
    shown = backfilled.metadata("report", N_DAYS)
    assert shown["path"] == str(report_path(backfilled.settings, day(N_DAYS)).resolve())
    (run,) = backfilled.instance.get_runs()
    said = [entry.user_message for entry in backfilled.instance.all_logs(run.run_id)]
    assert any("mom-pipeline report --day 2024-03-02" in line for line in said)


def test_every_day_that_was_asked_for_is_green(backfilled: Pipeline, copied: Pipeline):
    every = {str(day(n + 1)) for n in range(N_DAYS)}
    assert backfilled.instance.get_materialized_partitions(dg.AssetKey("report")) == every
    copied.run(3, only=["report"])
    index = (copied.settings.reports_dir / "index.html").read_text(encoding="utf-8")
    pages = [f"{day(number)}.html" for number in (N_DAYS, 3)]
    assert re.findall(r'href="([^"]+)"', index) == pages


def test_the_page_shows_the_days_and_the_model(backfilled: Pipeline):
    facts = gather(backfilled.settings, day(N_DAYS))
    assert [entry.day for entry in facts.figures.days] == [str(day(n + 1)) for n in range(N_DAYS)]
    assert [entry.full for entry in facts.figures.days] == [True] + [False] * (N_DAYS - 1)
    assert len(facts.components) == len(facts.figures.days[-1].agreement) == 3
    registry = ModelRegistry(backfilled.settings.models_dir)
    assert facts.manifest.version == registry.champion_version()
    assert facts.components[0].weight == registry.champion().model.weights[0]
    assert len({entry.delivery_day for entry in facts.deliveries}) == N_DAYS
    assert facts.metrics[-1].day == day(N_DAYS)
    text = report_path(backfilled.settings, day(N_DAYS)).read_text(encoding="utf-8")
    for component in facts.components:
        for name, _ in component.top_items:
            assert escape(name) in text


def test_the_page_shows_people_with_what_they_took_and_are_shown(backfilled: Pipeline):
    facts = gather(backfilled.settings, day(N_DAYS))
    recommender = Recommender.open(backfilled.settings.data_dir)
    assert len({person.user for person in facts.people}) == 6
    with backfilled.warehouse.reading() as connection:
        for person in facts.people:
            last = connection.execute(
                "SELECT item_id FROM raw_logs WHERE user_id = ? "
                "ORDER BY event_time DESC, source_file DESC, line DESC LIMIT 1",
                [person.user],
            ).fetchone()
            assert person.history[0] == last[0]
            listed = recommender.recommend(person.user, 8).items
            assert list(person.items) == [line.item for line in listed]
        counted = connection.execute("SELECT count(DISTINCT item_id) FROM recommendations")
        assert facts.list_use is not None
        assert facts.list_use.coverage == counted.fetchone()[0] / facts.n_items
    assert 0 < facts.list_use.head_listed < 1
    assert 0.1 < facts.list_use.head_taken < 1


def test_the_service_knows_without_the_warehouse_how_good_the_lists_were(backfilled: Pipeline):
    noted = ModelRegistry(backfilled.settings.models_dir).evaluated()
    stored = backfilled.query(
        "SELECT day, ranking = 'popularity', recall_at_k FROM evaluation_metrics "
        f"WHERE cutoff = {noted[-1].cutoff}"
    )
    recall = {(str(of), popular): share for of, popular, share in stored}
    assert [entry.day for entry in noted] == sorted({of for of, _ in recall})
    assert {(e.day, e.recall, e.popularity) for e in noted} == {
        (of, recall[of, False], recall[of, True]) for of, _ in recall
    }


def test_the_page_is_about_the_model_in_use(copied: Pipeline):
    """Of the day and of any later one, after a refused model and after a rollback too."""
    registry = ModelRegistry(copied.settings.models_dir)
    last, first = registry.names()[-1], registry.names()[0]
    facts = gather(copied.settings, day(N_DAYS))
    assert facts.manifest.version == last
    assert facts.in_use is not None
    assert facts.in_use.reason == registry.history()[-1].reason
    registry.promote(first, "by hand", by=PERSON)
    facts = gather(copied.settings, day(N_DAYS))
    assert (facts.manifest.version, facts.in_use.by) == (first, PERSON)
    assert facts.in_use.before == last
    assert 0.1 < facts.in_use.kept < 1
    assert facts.in_use.compared > 50
    registry.rollback()
    assert gather(copied.settings, day(N_DAYS)).manifest.version == last


def test_a_day_without_a_model_has_a_page_that_says_so(copied: Pipeline):
    registry = ModelRegistry(copied.settings.models_dir)
    kept = [date.fromisoformat(name[:10]) for name in registry.names()]
    assert newest_day(copied.settings) == day(N_DAYS)
    # Never in use, and kept.
    assert write_report(copied.settings, kept[-2]).data.in_use is None
    written = write_report(copied.settings, day(0))
    assert written.data is None
    assert "no model was in use as of 2024-02-29" in written.problem
    assert "no model was in use as of" in written.path.read_text(encoding="utf-8")
    damaged = registry.folder(str(registry.champion_version())) / MODEL
    damaged.write_bytes(b"")
    assert "differs from its manifest" in write_report(copied.settings, day(N_DAYS)).problem


def test_a_page_without_a_model_fails_nothing(empty: Pipeline):
    empty.deliver({f"{day(1)}.csv": lines_of(day(1), "ada", "bob")})
    path = report_path(empty.settings, day(1))
    path.parent.mkdir()
    path.write_text("of an earlier model")
    empty.run(1)
    assert "There is nothing to show" in path.read_text(encoding="utf-8")


def test_the_command_names_the_page(copied: Pipeline, monkeypatch):
    monkeypatch.setenv("MOM_DATA_DIR", str(copied.root))
    done = CliRunner().invoke(cli, ["report", "--day", str(day(N_DAYS))])
    assert report_path(copied.settings, day(N_DAYS)).resolve().as_uri() in done.stdout


def test_the_command_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("MOM_DATA_DIR", str(tmp_path))
    found = CliRunner().invoke(cli, ["report"])
    assert isinstance(found.exception, NothingToReport)
    assert "mom-pipeline update" in str(found.exception)
    assert not (tmp_path / "reports").exists()
