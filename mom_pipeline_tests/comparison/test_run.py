"""Whole comparisons of small methods, each in a real process."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison import isolated
from mom_pipeline.comparison.fitting import write_data
from mom_pipeline.comparison.isolated import Budget, run_isolated
from mom_pipeline.comparison.run import AGE, HISTORY, Options, breakdown, grid_for, run_comparison
from mom_pipeline.comparison.split import TrainTest, split_of_files
from mom_pipeline_tests.comparison.conftest import STUBS
from mom_pipeline_tests.comparison.stubs import METHODS
from mom_pipeline_tests.running import wait_until

GOWALLA = Path(__file__).parents[2].parent / "shared" / "data" / "gowalla"


@pytest.fixture
def waits(monkeypatch):
    """Give the seconds that a process has left whenever that is asked; then there is no limit.

    So a test decides when the time is over, and not how busy the machine is.
    """

    def left(*seconds):
        given = iter(seconds)
        monkeypatch.setattr(isolated, "_left", lambda deadline: next(given, None))

    return left


@pytest.fixture(scope="module")
def compared(split, tmp_path_factory):
    """Two good methods, compared once for the tests that only look at it; progress, and scratch."""
    options, told = Options(("popular", "pairs"), "pairs", registry=STUBS), []
    scratch = tmp_path_factory.mktemp("compared")
    found = run_comparison(split, options, scratch, lambda *said: told.append(said))
    return found, told, scratch


@pytest.fixture(scope="module")
def found(compared):
    return compared[0]


def test_methods_by_hand(split, found):
    popular = found.result("popular")
    # By hand: everybody's list is the items by users, less the own ones.
    train, test = split.final.train.toarray(), split.final.test.toarray()
    order = np.argsort(-train.astype(bool).sum(axis=0), kind="stable")
    recalls, precisions = [], []
    for history, wanted in zip(train, test, strict=True):
        best = [item for item in order if not history[item]][:20]
        recalls.append(wanted[best].sum() / wanted.sum())
        precisions.append(wanted[best].sum() / 20)
    at_20 = found.cutoffs.index(20)
    np.testing.assert_allclose(popular.per_user["recall"][:, at_20], recalls)
    assert popular.means["recall"][at_20] == pytest.approx(np.mean(recalls))
    assert popular.means["precision"][at_20] == pytest.approx(np.mean(precisions))
    # On the disk, not in memory: ten methods and a million users are 3.5 GB.
    assert all(isinstance(values, np.memmap) for values in popular.per_user.values())
    pairs = found.result("pairs")
    interval = popular.differences["recall"][at_20]
    wanted = popular.means["recall"][at_20] - pairs.means["recall"][at_20]
    assert interval.difference == pytest.approx(wanted)
    assert interval.low < interval.difference < interval.high
    assert not pairs.differences
    assert (found.n_users, found.n_dropped, found.n_newcomers) == (80, 0, 0)
    assert popular.fit_seconds > 0 < popular.predict_seconds
    assert 20e6 < popular.peak_bytes < 500e6
    assert popular.coverage[0] <= popular.coverage[-1] == 1.0
    assert len(popular.novelty) == 11


def test_progress_only_grows_and_nothing_is_left(compared):
    _, told, scratch = compared
    texts, shares = zip(*told, strict=True)
    assert list(shares) == sorted(shares)
    assert set(texts) >= {"Popular: final fit", "Pairs: final fit"}
    assert 0 <= shares[0] <= shares[-1] <= 1
    assert not list((scratch / "final").glob("*/"))


def test_the_choice_is_made_on_validation_alone(split, found, tmp_path):
    # {"sign": -1} comes first in the grid, and lists the least popular items.
    assert found.result("popular").settings == {"sign": 1}
    rows = np.zeros(split.windows[0].test.shape)
    taken = np.bincount(split.windows[0].train.indices, minlength=rows.shape[1])
    rows[:, np.argsort(taken)[:3]] = 1
    upside_down = replace(split.windows[0], test=sparse.csr_array(rows))
    options = Options(("popular",), registry=STUBS)
    other = run_comparison(replace(split, windows=(upside_down,)), options, tmp_path / "scratch")
    assert other.result("popular").settings == {"sign": -1}


def test_what_goes_wrong_becomes_a_sentence_and_leaves_the_others_alone(compare, waits):
    waits(0)  # of the first process
    bad = ("sleeps", "greedy", "crashes", "raises", "refuses", "lacks")
    found = compare(*bad, "plain", reference="crashes", seconds=6)
    assert {result.name: result.failure for result in found.results} == {
        "sleeps": "takes longer than the 6 s allowed",
        "greedy": "needs more memory than the 1 GB allowed",
        "crashes": "was ended by SIGABRT, perhaps for lack of memory",
        "raises": "failed with ZeroDivisionError: nothing to divide by",
        "refuses": "this data cannot be used; add days",
        "lacks": "a library is missing (No module named 'a_library_that_nobody_has'); "
        "pip install 'mom-pipeline[baselines]'",
        "plain": "",
    }
    assert not found.result("sleeps").means
    assert found.result("plain").means["recall"][-1] > 0
    # The reference has no result, so there is nothing to differ from.
    assert not found.result("plain").differences


def test_the_best_of_the_settings_tried_in_time(compare, waits):
    waits(None, None, 0)  # two answers, and then the time is over
    found = compare("tires", seconds=5).result("tires")
    assert found.settings == {"asleep": 0}
    assert found.notes["settings tried"] == "2 of 3: one takes longer than the 5 s allowed"


def test_too_little_memory_to_begin_with(compare):
    """Not even the libraries fit."""
    failure = compare("plain", memory=30_000_000).result("plain").failure
    assert failure == "needs more memory than the 0.03 GB allowed"


def starved(line, seconds):
    """Says that there is no memory, and ends with that or, for a long time, does not."""
    print(line, flush=True)
    time.sleep(seconds)
    sys.exit(1)
    yield


@pytest.mark.parametrize("is_stuck", [True, False])
def test_a_process_that_says_it_lacks_memory_is_told_so(tmp_path, monkeypatch, is_stuck):
    """By Python, by OpenBLAS or by the loader, and also where it never ends."""
    log, told = tmp_path / "log", []
    line = "MemoryError" if is_stuck else "OpenBLAS error: Memory allocation still failed"

    def left(deadline):
        wait_until(lambda: log.exists() and line in log.read_text(), "the other process", 300)
        return 0.0 if is_stuck else None

    monkeypatch.setattr(isolated, "_left", left)
    arguments = (line, 600.0 * is_stuck)
    failure = run_isolated(f"{__name__}:starved", arguments, Budget(5), log, told.append)
    assert failure == "needs more memory than this machine has"
    assert not told


def test_the_number_of_components_goes_where_the_method_wants_it(split):
    sized, plain, trial = METHODS["sized"], METHODS["plain"], split.final
    assert grid_for(sized, 7, trial) == ({"n_components": 7},)
    assert grid_for(sized, 99, trial) == ({"n_components": 40},)
    assert grid_for(plain, 7, trial) == ({},)


def test_one_core_and_only_the_memory_of_the_method(split, tmp_path):
    options = Options(("plain",), registry=STUBS, budget=Budget(threads=1))
    held_here = bytearray(600_000_000)
    found = run_comparison(split, options, tmp_path / "scratch")
    assert found.result("plain").notes == {"cores": 1}
    # ru_maxrss of a started program counts what its parent had.
    assert found.result("plain").peak_bytes < len(held_here) / 2


def test_a_worker_ends_with_its_parent(split, tmp_path):
    write_data(tmp_path, split.final.users, (split.final.train, None, None))
    code = (
        "from pathlib import Path\n"
        "from mom_pipeline.comparison.fitting import Budget, Task, run_task\n"
        f"here = Path({str(tmp_path)!r})\n"
        f"task = Task({STUBS!r}, 'writes_pid', ({{'path': str(here / 'pid')}},), 0, 5, True)\n"
        "run_task(here, here / 'task', task, Budget())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    pid_file = tmp_path / "pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), "the other process", 300)
    worker = int(pid_file.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), "the other process", 300)


@pytest.mark.skipif(not GOWALLA.exists(), reason="the Gowalla split is not beside the repository")
def test_popularity_on_gowalla_has_its_known_recall(tmp_path):
    split = split_of_files(GOWALLA / "train.txt.gz", GOWALLA / "test.txt.gz")
    some = split.final.sample(8000, np.random.default_rng(0))
    split = replace(split, final=some, windows=())
    options = Options(("plain",), registry=STUBS, cutoffs=(20,))
    found = run_comparison(split, options, tmp_path / "scratch")
    assert len(split.final.users) == found.n_users == 8000
    assert found.data.users == 29_858
    assert found.data.name == "gowalla"
    assert found.result("plain").means["recall"][0] == pytest.approx(0.0416, abs=0.003)


@pytest.fixture
def trial():
    """Two users of one item and one of three; items 0 and 1 are old, 2 of 10 days, 3 is new."""
    days = sparse.csr_array(
        np.array([[100.0, 0, 0, 0], [0, 101, 0, 0], [110, 190, 191, 0], [0, 0, 0, 200]])
    )
    train = sparse.csr_array((days.toarray() > 0).astype(float))
    test = sparse.csr_array(
        np.array([[0.0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1]])  # the last is unknown
    )
    return TrainTest(train, np.array([0, 1, 2]), test, last_days=days)


def test_each_group_of_users_and_of_items_has_its_own_mean(trial):
    ids, second = np.array([[1, 2], [2, 3], [0, 1]]), 1 / np.log2(3)
    by_length = {
        "1–2 items (2 users)": pytest.approx((1 + second) / 2),
        "3–5 items (1 users)": 0.0,
    }
    by_age = {
        "0–7 days (2 users)": pytest.approx(second / 2),
        "over 30 days (1 users)": 1.0,
    }
    assert breakdown(ids, trial, 2) == {HISTORY: by_length, AGE: by_age}
    assert breakdown(ids, replace(trial, last_days=None), 2) == {HISTORY: by_length}
