"""The settings of a day: learnt from windows before it, kept until due, and the same every time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import VisitFailed
from mom_pipeline.core.moments.users import DayRows, InMemoryEngine, Users, UsersInMemory
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.threads import using_cores
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.pipeline import choice
from mom_pipeline.pipeline.choice import (
    ChosenSettings,
    chosen_on,
    likelihoods,
    settings_of_day,
    windows_before,
)
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import delivered_pairs, extend_dictionaries, matrix_as_of
from mom_pipeline_tests.data_folder import DataFolder

LOGS = SampleSettings(n_days=9, n_users=400, n_items=60, n_components=3, events_per_day=700, seed=4)
FIRST, LAST = date(2024, 3, 1), date(2024, 3, 9)
SETTINGS = "[matrix]\nmin_item_users = 3\n[evaluation]\nhorizon_days = 2\n"
Folder = Callable[..., Warehouse]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The warehouse of some days, with settings of its own each time."""
    root: Path = tmp_path_factory.mktemp("choice")
    data = DataFolder(root)
    data.take_all((one.name, one.content) for one in sample_deliveries(LOGS))
    with data.warehouse.connect() as connection:
        extend_dictionaries(connection, LAST)

    def warehouse(text: str = "") -> Warehouse:
        (root / "pipeline.toml").write_text(SETTINGS + text)
        return Warehouse(load_settings(root, {}))

    return warehouse


@pytest.fixture(scope="module")
def chosen(folder: Folder) -> ChosenSettings:
    return settings_of_day(folder(), LAST, 400, 5000, None)


def test_the_choice_is_the_same_whatever_the_load(folder: Folder, chosen: ChosenSettings):
    with using_cores(1):
        again = settings_of_day(folder(), LAST, 400, 5000, None)
    assert again == chosen
    assert ChosenSettings.from_dict(chosen.as_dict()) == chosen


def test_it_rests_on_what_users_took_later(chosen: ChosenSettings):
    assert (chosen.chosen_on, chosen.evidence["interactions"]) == (str(LAST), 5000)
    assert chosen.evidence["users"] > 200
    assert chosen.evidence["ndcg"] > chosen.evidence["ndcg_stated"] > 0
    assert chosen.ranking != RankingWeights()


def test_windows_are_as_long_as_the_horizon_and_end_where_the_next_begins(folder: Folder):
    warehouse = folder()
    windows = list(windows_before(warehouse, LAST))
    assert len(windows) == 3
    for number, window in enumerate(windows):
        last = LAST - timedelta(days=2 * number)
        before = matrix_as_of(warehouse, last - timedelta(days=2))
        later = delivered_pairs(warehouse, last - timedelta(days=2), last)
        N, D = before.interactions.shape
        assert (before.interactions != window.X).nnz == 0
        assert (window.last_days != before.last_days).nnz == 0
        assert window.later.shape == (N, D)
        np.testing.assert_array_equal(window.later.toarray(), later.toarray()[:N, :D])
    assert len(list(windows_before(warehouse, FIRST + timedelta(days=3)))) == 1
    assert len(list(windows_before(warehouse, LAST, horizon=4))) == 2


def test_the_first_days_learn_from_their_own_newest_part(folder: Folder):
    warehouse = folder()
    for day in (FIRST, FIRST + timedelta(days=1)):
        (window,) = windows_before(warehouse, day)
        whole = matrix_as_of(warehouse, day)
        assert (window.X + window.later != whole.interactions).nnz == 0
        assert 0.1 < window.later.nnz / whole.interactions.nnz < 0.6
        assert settings_of_day(warehouse, day, 300, 700, None).chosen_on == str(day)
    assert window.last_days.data.max() < whole.last_days.data.max()
    assert not list(windows_before(warehouse, FIRST - timedelta(days=1)))


@pytest.mark.parametrize(
    ("days_later", "growth", "kept"),
    [
        (1, 1.49, True),
        (1, 1.5, False),
        (27, 1.4, True),
        (28, 1.24, True),
        (28, 1.25, False),
        (111, 1.24, True),
        (112, 1.0, False),
        (-1, 1.0, False),
    ],
)
def test_a_choice_is_kept_until_it_is_due(
    folder: Folder,
    chosen: ChosenSettings,
    monkeypatch: pytest.MonkeyPatch,
    days_later: int,
    growth: float,
    kept: bool,
):
    monkeypatch.setattr(choice, "windows_before", lambda *args: [])
    on, n = LAST + timedelta(days=days_later), round(5000 * growth)
    found = settings_of_day(folder(), on, 400, n, chosen)
    assert found.chosen_on == (chosen.chosen_on if kept else "")
    assert (found.method == chosen.method) == kept


def test_what_is_fixed_is_not_chosen(folder: Folder):
    model = "[model]\nn_components = 5\nestimator = 'paper'\n"
    fixed = folder(model + "[ranking]\nweights = { ease = 0.5 }\n")
    found = settings_of_day(fixed, LAST, 400, 5000, None)
    assert [t["n_components"] for t in found.evidence["trials"]] == [5]
    assert (found.model.n_components, found.model.estimator) == (5, "paper")
    assert found.ranking.ease == (0.5, 0.0)
    assert found.ranking.pairs != RankingWeights().pairs
    stated = folder(model + "[ranking]\nlearn = false\nweights = { quiet = -1.0 }\n")
    found = settings_of_day(stated, LAST, 400, 5000, None)
    assert found.ranking == RankingWeights(quiet=(-1.0, 0.0))
    never = folder(model + "[tuning]\nevery_days = 0\n")
    found = settings_of_day(never, LAST, 400, 5000, None)
    assert found == ChosenSettings.as_they_stand(never.settings)


@pytest.mark.parametrize(("n_users", "K"), [(3, 4), (63, 4), (64, 8), (9_999, 64), (10**6, 100)])
def test_with_nothing_to_learn_from_the_stated_weights_rank(folder: Folder, n_users: int, K: int):
    before = FIRST - timedelta(days=1)
    found = settings_of_day(folder(), before, n_users, 100, None)
    assert (found.chosen_on, found.ranking) == ("", RankingWeights())
    assert found.model.n_components == K
    fixed = folder("[model]\nn_components = 50\n")
    assert settings_of_day(fixed, before, n_users, 100, None).model.n_components == 50


def test_the_most_likely_k_of_all_is_chosen(folder: Folder, chosen: ChosenSettings):
    settings = folder().settings
    window = next(iter(windows_before(folder(), LAST)))
    trials = list(likelihoods(window, settings))
    tried = {(t["estimator"], t["n_components"]) for t in trials}
    assert tried == {(name, K) for name in ("balanced", "paper", "unbiased") for K in (4, 8, 16)}
    best = max(trials, key=lambda t: t["likelihood"])
    assert {name: getattr(chosen.model, name) for name in best if name != "likelihood"} == {
        name: value for name, value in best.items() if name != "likelihood"
    }
    nothing = csr_array(window.later.shape)
    assert not list(likelihoods(replace(window, later=nothing), settings))


def test_a_likelihood_is_that_of_a_fit_of_its_k(folder: Folder):
    """Of users with a history, over what they took later of the items that were known."""
    settings = folder("[model]\nestimator = 'balanced'\nrows = 'binary'\n").settings
    window = next(iter(windows_before(folder(), LAST)))
    found = next(likelihoods(window, settings))
    model = MethodOfMoments(4, "balanced", rows="binary", ranking="components", anchor_width=16)
    model = model.fit(window.X).fitted
    probs = model.memberships(window.X) @ model.smoothed_item_probs.T
    known = (window.later.toarray() > 0) & (model.popularity > 0)
    known &= (np.diff(window.X.indptr) > 0)[:, None]
    own = [np.log(p[k]).mean() for p, k in zip(probs, known, strict=True) if k.any()]
    assert found["likelihood"] == pytest.approx(np.mean(own), rel=1e-5)


def test_weights_of_before_stay_where_they_are_better(folder: Folder, chosen: ChosenSettings):
    windows = list(windows_before(folder(), LAST))
    settings = folder("[model]\nn_components = 4\nestimator = 'balanced'\n").settings
    bad = RankingWeights(pairs=(-1.0, 0.0), ease=(-1.0, 0.0))
    assert chosen_on(windows, settings, LAST, earlier=bad).ranking == chosen.ranking
    stiff = folder("[model]\nn_components = 4\nestimator = 'balanced'\n[ranking]\npenalty = 1e9\n")
    found = chosen_on(windows, stiff.settings, LAST, earlier=chosen.ranking)
    assert found.ranking == chosen.ranking
    assert chosen_on(windows, stiff.settings, LAST).ranking != chosen.ranking


class Gone(InMemoryEngine):
    """An engine whose scheduler went away after the rows were sent."""

    def users(self, rows: DayRows) -> Users:
        return GoneUsers(rows.X, rows.last_days)


class GoneUsers(UsersInMemory):
    def add_up(self, work: Any) -> Any:
        raise VisitFailed("the scheduler is gone")


@pytest.mark.parametrize("learn", ["true", "false"])
def test_a_pass_that_fails_is_no_reason_to_choose_nothing(folder: Folder, learn: str):
    warehouse = folder(f"[ranking]\nlearn = {learn}\n")
    with pytest.raises(VisitFailed):
        settings_of_day(warehouse, LAST, 400, 5000, None, engine=Gone())
