"""Settings that nobody touched: chosen on the last days, kept, and stated with their evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.bench.day_gate import Events, read_log
from mom_pipeline.logs.ingest import ingest_day
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.pipeline.days import Days, NotUsable
from mom_pipeline.serving.registry import ModelRegistry

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


def test_the_choice_and_its_evidence_are_metadata(chosen: Pipeline):
    shown = chosen.metadata("chosen_settings", 1)
    assert shown["chosen_on"] == str(day(1))
    assert shown["users"] >= 100
    assert shown["ndcg"] > 0
    model = chosen.days.chosen(day(1)).model
    assert (model.n_components, model.estimator) == (shown["n_components"], shown["estimator"])
    assert model.ranking == "three-moment"


def test_it_is_made_anew_as_the_log_grows(chosen: Pipeline):
    last = 1
    for number in range(2, LOGS.n_days + 1):
        now, then = (chosen.days.rows(day(n)).X.nnz for n in (number, last))
        last = number if now >= 1.5 * then else last
        assert chosen.days.chosen(day(number)).chosen_on == str(day(last))
    assert 1 < last < LOGS.n_days
    assert chosen.days.chosen(day(10)).method == chosen.days.chosen(day(last)).method


def test_only_a_choice_of_other_moments_is_a_full_rebuild(chosen: Pipeline):
    """Other weights of the same moments need none."""
    choices = [chosen.days.chosen(day(n)) for n in range(1, LOGS.n_days + 1)]
    others = {"other moments": 0, "other weights": 0}
    for number, (now, then) in enumerate(zip(choices[1:], choices, strict=False), start=2):
        same, mode = now.same_moments(then), chosen.mode(number)
        assert mode.startswith("full: other settings were chosen") != same
        others["other moments"] += not same
        others["other weights"] += same and now.ranking != then.ranking
    assert min(others.values()) > 0


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
