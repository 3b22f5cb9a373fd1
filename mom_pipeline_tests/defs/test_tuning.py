"""Settings that nobody touched: chosen on the last days, kept, and stated with their evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.bench.day_gate import Events, read_log
from mom_pipeline.core.errors import VisitFailed
from mom_pipeline.core.moments.users import DayRows, InMemoryEngine, Users, UsersInMemory
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.logs.ingest import ingest_day
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.pipeline.choice import ChosenSettings
from mom_pipeline.pipeline.days import Days, NotUsable
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.tuning.choosing import settings_of_day

from .conftest import SERVED, Pipeline, day

SHARED = Path(__file__).parents[3] / "shared" / "data"
LOGS = SampleSettings(
    n_days=10, n_users=400, n_items=60, n_components=3, events_per_day=700, seed=4
)
UNTOUCHED = """\
[matrix]
min_item_users = 3
[evaluation]
horizon_days = 2
cutoffs = [5, 10, 20]
[rebuild]
capture_threshold = 0.0
"""


def untouched(root: Path, instance: dg.DagsterInstance, text: str = UNTOUCHED) -> Pipeline:
    pipeline = Pipeline(root, instance)
    (root / "pipeline.toml").write_text(text)
    return pipeline


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = untouched(tmp_path_factory.mktemp("chosen"), instance)
        pipeline.deliver({one.name: one.content for one in sample_deliveries(LOGS)})
        pipeline.run(1, 7, only=SERVED)
        pipeline.run(8, only=SERVED)
        pipeline.run(9, 10, only=SERVED)
        yield pipeline


def test_with_few_days_nothing_is_chosen_and_that_is_said(chosen: Pipeline):
    shown = chosen.metadata("chosen_settings", 7)
    assert shown["chosen_on"] == "not chosen"
    assert shown["words"] == "not chosen: 7 days are too few to choose on"
    weights = chosen.days.chosen(day(7)).ranking
    pairs = {"ease": 0.0, "low_pass": 0.0, "components": 0.0, "candidate_exponent": 0.0}
    assert weights == RankingWeights(**pairs)


def test_the_choice_and_its_evidence_are_metadata(chosen: Pipeline):
    shown = chosen.metadata("chosen_settings", 8)
    assert shown["chosen_on"] == str(day(8))
    assert shown["left_out"] == "nothing"
    assert shown["users"] >= 100
    assert shown["map"] > 1.2 * shown["popularity_map"]
    model = chosen.days.chosen(day(8)).model
    assert (model.n_components, model.estimator) == (shown["n_components"], shown["estimator"])
    assert model.ranking == "three-moment"


def test_the_choice_is_kept_until_it_is_due(chosen: Pipeline):
    first, later = chosen.days.chosen(day(8)), chosen.days.chosen(day(10))
    assert first.method == later.method
    assert later.chosen_on == str(day(8))
    n_pairs = chosen.days.rows(day(8)).X.nnz

    def chosen_on(days_later: int, growth: float) -> str:
        on = day(8) + timedelta(days=days_later)
        return settings_of_day(chosen.warehouse, on, 900, int(growth * n_pairs), later).chosen_on

    assert chosen_on(27, 9.0) == str(day(8))
    assert chosen_on(28, 1.2) == str(day(8))
    assert chosen_on(28, 1.3) != str(day(8))
    assert chosen_on(4 * 28 - 1, 1.2) == str(day(8))
    assert chosen_on(4 * 28, 1.2) != str(day(8))


def test_a_choice_of_other_moments_is_a_full_rebuild_and_later_days_are_not(chosen: Pipeline):
    assert chosen.mode(8).startswith("full: other settings were chosen than those of 2024-03-07")
    assert [chosen.mode(n).split(":")[0] for n in (9, 10)] == ["incremental"] * 2


def test_the_model_is_made_with_the_choice_and_its_version_names_it(chosen: Pipeline):
    registry = ModelRegistry(chosen.settings.models_dir)
    model, method = chosen.days.model(day(10)), chosen.days.chosen(day(10))
    assert model.pair_ranking is not None
    assert model.pair_ranking.weights == method.ranking
    assert model.item_probs.shape[1] <= method.model.n_components
    champion = registry.champion()
    assert champion.manifest.day == str(day(10))
    assert champion.manifest.settings["n_components"] == method.model.n_components
    assert champion.manifest.settings["estimator"] == method.model.estimator


def test_other_settings_went_through_the_gate(chosen: Pipeline):
    said = chosen.metadata("promotion", 8)["decision"]
    assert said.startswith("passed: MAP")
    assert f"its settings and the new ones, both as of {day(6)}" in said
    assert float(chosen.metadata("promotion", 8)["map_difference"]) > 0
    assert chosen.metadata("promotion", 10)["decision"].startswith("passed: a new day of data")


def test_lists_are_ahead_of_popularity(chosen: Pipeline):
    recall = dict(
        chosen.query(
            "SELECT ranking, recall_at_k FROM evaluation_metrics "
            f"WHERE day = '{day(10)}' AND cutoff = 10"
        )
    )
    assert recall["three-moment"] > 1.1 * recall["popularity"]


def test_what_is_fixed_stays_and_the_rest_is_chosen(chosen: Pipeline, tmp_path: Path):
    text = UNTOUCHED + "[model]\nn_components = 5\nestimator = 'paper'\n[ranking]\ntrend = 0.25\n"
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = untouched(tmp_path, instance, text)
    settings = pipeline.settings
    assert set(settings.fixed) == {"model.n_components", "model.estimator", "ranking.trend"}
    pipeline.warehouse.path.write_bytes(chosen.warehouse.path.read_bytes())
    method = settings_of_day(pipeline.warehouse, day(10), 900, 1000, None)
    assert method.chosen_on == str(day(10))
    assert (method.model.n_components, method.model.estimator) == (5, "paper")
    assert method.ranking.trend == 0.25


def test_a_pass_that_fails_is_no_reason_to_choose_nothing(chosen: Pipeline):
    with pytest.raises(VisitFailed, match="the scheduler is gone"):
        settings_of_day(chosen.warehouse, day(8), 900, 1000, None, engine=Gone())


class Gone(InMemoryEngine):
    """An engine whose scheduler went away after the rows were sent."""

    def users(self, rows: DayRows) -> Users:
        return GoneUsers(rows.X, rows.last_days)


class GoneUsers(UsersInMemory):
    def add_up(self, work: Any) -> Any:
        raise VisitFailed("the scheduler is gone")


def test_no_choice_takes_the_settings_as_they_stand(chosen: Pipeline):
    with dg.DagsterInstance.ephemeral() as instance:
        text = UNTOUCHED + "[tuning]\nevery_days = 0\n"
        pipeline = untouched(chosen.root / "off", instance, text)
    method = settings_of_day(pipeline.warehouse, day(10), 900, 1000, None)
    assert method == ChosenSettings.as_they_stand(pipeline.settings)
    assert method.ranking == RankingWeights()


@pytest.mark.skipif(
    not (SHARED / "movietweetings").exists(), reason="MovieTweetings is not beside the repository"
)
@pytest.mark.long
def test_an_untouched_folder_is_far_ahead_of_popularity_on_a_real_log(tmp_path: Path):
    """Five weeks of MovieTweetings: the default settings on the last of them."""
    days = _moved(dict(list(read_log(SHARED, "movietweetings").items())[70:105]))
    first, last = min(days), max(days)
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = untouched(tmp_path, instance, "")
        pipeline.deliver({f"{one}.csv": _lines(events) for one, events in days.items()})
        for one in days:
            ingest_day(pipeline.warehouse, one)
        before = last - timedelta(days=pipeline.settings.evaluation.horizon_days)
        assert before > first
        for one in (before, last):
            pipeline.run_days(str(one), str(one), only=SERVED[:-1])
    rows = pipeline.query("SELECT ranking, recall_at_k FROM evaluation_metrics WHERE cutoff = 20")
    recall = dict(rows)
    assert pipeline.days.chosen(before).chosen_on == str(before)
    assert recall["three-moment"] > 1.2 * recall["popularity"] > 0


def _moved(days: Mapping[date, Events]) -> dict[date, Events]:
    """The same days as many weeks later as it takes to be days of the pipeline."""
    weeks = -(-(day(1) - min(days)).days // 7)
    return {
        one + timedelta(weeks=weeks): replace(events, times=events.times + weeks * 7 * 86_400)
        for one, events in days.items()
    }


def _lines(events: Events) -> bytes:
    seconds = events.times.astype("datetime64[s]").astype(str)
    rows = np.char.add(np.char.add(events.users.astype(str), ","), events.items.astype(str))
    text = "\n".join(np.char.add(np.char.add(rows, ","), seconds).tolist())
    return f"user,item,timestamp\n{text}\n".encode()


def test_a_choice_for_other_lists_is_not_kept(chosen: Pipeline):
    """Weights are chosen for lists with or without what the user had before."""
    settings = chosen.settings
    serving = replace(settings.serving, exclude_seen=not settings.serving.exclude_seen)
    other = Days(settings.model_copy(update={"serving": serving}))
    with pytest.raises(NotUsable, match="other settings"):
        other.chosen(day(8))
