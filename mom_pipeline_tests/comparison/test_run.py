"""Whole comparisons of small methods, each in a real process."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import P, R, nDCG
from scipy import sparse

from mom_pipeline.comparison.fitting import Budget, Task, read_lists, run_task, write_data
from mom_pipeline.comparison.isolated import run_isolated
from mom_pipeline.comparison.results import ComparisonError
from mom_pipeline.comparison.run import Options, check_options, run_comparison
from mom_pipeline.comparison.split import split_of_files

from .conftest import STUBS

GOWALLA = Path(__file__).parents[2].parent / "shared" / "data" / "gowalla"


@pytest.fixture(scope="module")
def told():
    """What the comparison of `found` told about its progress."""
    return []


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("compared")


@pytest.fixture(scope="module")
def found(split, scratch, told):
    """Two good methods, compared once for the tests that only look at the result."""
    options = Options(("popular", "pairs"), "pairs", registry=STUBS)
    return run_comparison(split, options, scratch, lambda text, share: told.append((share, text)))


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
    assert popular.fit_seconds > 0
    assert popular.predict_seconds > 0
    assert 20e6 < popular.peak_bytes < 500e6
    assert popular.coverage[0] <= popular.coverage[-1] == 1.0
    assert len(popular.novelty) == 11


def test_the_choice_is_made_on_validation_alone(split, found, tmp_path):
    # {"sign": -1} comes first in the grid, and lists the least popular items.
    assert found.result("popular").settings == {"sign": 1}
    rows = np.zeros(split.validation.test.shape)
    taken = np.bincount(split.validation.train.indices, minlength=rows.shape[1])
    rows[:, np.argsort(taken)[:3]] = 1
    upside_down = replace(split.validation, test=sparse.csr_array(rows))
    options = Options(("popular",), registry=STUBS)
    other = run_comparison(replace(split, validation=upside_down), options, tmp_path / "scratch")
    assert other.result("popular").settings == {"sign": -1}


def test_agrees_with_ir_measures_end_to_end(split, found, tmp_path):
    write_data(tmp_path, split.final.train, split.final.users)
    task = Task(STUBS, "pairs", ({},), 0, 20, True)
    (answer,) = run_task(tmp_path, tmp_path / "task", task, Budget(60))
    assert not answer.failure
    lists = read_lists(tmp_path / "task", 0)
    users = range(len(split.final.users))
    test = split.final.test
    qrels = [
        ir_measures.Qrel(str(u), str(i), 1)
        for u in users
        for i in test.indices[test.indptr[u] : test.indptr[u + 1]]
    ]
    run = [ir_measures.ScoredDoc(str(u), str(i), -r) for u in users for r, i in enumerate(lists[u])]
    oracle = ir_measures.calc_aggregate([P @ 5, R @ 20, nDCG @ 10], qrels, run)
    means = found.result("pairs").means
    assert means["precision"][found.cutoffs.index(5)] == pytest.approx(oracle[P @ 5])
    assert means["recall"][found.cutoffs.index(20)] == pytest.approx(oracle[R @ 20])
    assert means["ndcg"][found.cutoffs.index(10)] == pytest.approx(oracle[nDCG @ 10])


def test_one_method_out_of_its_budget_leaves_the_others_alone(compare):
    found = compare("sleeps", "greedy", "plain", seconds=6, reference="plain")
    assert found.result("sleeps").failure == "takes longer than the 6 s allowed"
    assert found.result("greedy").failure == "needs more memory than the 1 GB allowed"
    assert not found.result("sleeps").means
    assert found.result("plain").means["recall"][-1] > 0


def test_too_little_memory_to_begin_with(compare, monkeypatch):
    """Not even the libraries fit: said by Python, by OpenBLAS or by the loader."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)  # as a user has it
    for memory in (30_000_000, 100_000_000, 200_000_000):
        failure = compare("plain", memory=memory).result("plain").failure
        assert failure == f"needs more memory than the {memory / 1e9:g} GB allowed"


def starved_and_stuck() -> Iterator[None]:
    """Says that there is no memory, and ends no more."""
    print("MemoryError", flush=True)
    time.sleep(60)
    yield


def test_a_process_that_is_stuck_for_lack_of_memory_is_told_so(tmp_path):
    work, told = f"{__name__}:starved_and_stuck", []
    failure = run_isolated(work, (), Budget(seconds=5), tmp_path / "log", told.append)
    assert failure == "needs more memory than this machine has"
    assert not told


def test_crashes_and_missing_libraries_become_sentences(compare):
    found = compare("crashes", "raises", "refuses", "lacks", "plain", reference="crashes")
    failures = {result.name: result.failure for result in found.results}
    assert failures == {
        "crashes": "was ended by SIGABRT, perhaps for lack of memory",
        "raises": "failed with ZeroDivisionError: nothing to divide by",
        "refuses": "this data cannot be used; add days",
        "lacks": "the library a_library_that_nobody_has is not installed",
        "plain": "",
    }
    # The reference has no result, so there is nothing to differ from.
    assert not found.result("plain").differences


def test_the_best_of_the_settings_tried_in_time(compare):
    found = compare("tires", seconds=5).result("tires")
    assert found.settings == {"asleep": 0}
    assert found.notes["settings tried"] == "2 of 3: one takes longer than the 5 s allowed"


def test_the_same_seed_gives_the_same_figures(compare):
    one, two = (compare("random", "plain", seed=5) for _ in range(2))
    other = compare("random", seed=6)
    for name in ("random", "plain"):
        a, b = one.result(name), two.result(name)
        assert (a.means, a.differences, a.settings) == (b.means, b.differences, b.settings)
        assert (a.coverage, a.novelty) == (b.coverage, b.novelty)
        for metric in a.per_user:
            np.testing.assert_array_equal(a.per_user[metric], b.per_user[metric])
    assert other.result("random").means != one.result("random").means


def test_the_number_of_components_goes_where_the_method_wants_it(compare):
    assert compare("sized", n_components=7).result("sized").settings == {"n_components": 7}
    assert compare("sized", n_components=99).result("sized").settings == {"n_components": 40}


def test_one_core_and_only_the_memory_of_the_method(split, tmp_path):
    options = Options(("cores",), registry=STUBS, budget=Budget(threads=1))
    held_here = bytearray(600_000_000)
    found = run_comparison(split, options, tmp_path / "scratch")
    assert found.result("cores").notes == {"cores": 1}
    # ru_maxrss of a started program counts what its parent had.
    assert found.result("cores").peak_bytes < len(held_here) / 2


def test_seen_items_may_be_listed(files, tmp_path):
    split = split_of_files(*files, exclude_seen=False)
    options = Options(("popular", "listing"), registry=STUBS)
    found = run_comparison(split, options, tmp_path / "scratch")
    # The whole catalogue fits into a list of 40, so everything is found.
    assert found.result("popular").means["recall"][found.cutoffs.index(40)] == 1.0
    assert not found.exclude_seen
    # A method that chooses for its lists is told.
    assert found.result("listing").settings == {"lists": "all"}


def test_a_method_is_told_about_its_lists_only_where_they_hold_everything(compare):
    assert compare("listing").result("listing").settings == {}


def test_progress_only_grows(found, told, scratch):
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    assert len(set(told)) == len(told)
    assert {text for _, text in told} >= {"Popular: final fit", "Pairs: final fit"}
    assert 0 <= told[0][0] <= told[-1][0] <= 1
    assert (scratch / "final").is_dir()
    assert not list((scratch / "final").glob("*/"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(("popular", "magic"), registry=STUBS), "unknown method magic; the known ones are"),
        (Options(("popular",), "pairs", registry=STUBS), "reference pairs is not among"),
    ],
)
def test_unknown_names(options, message):
    with pytest.raises(ComparisonError, match=message):
        check_options(options)


def test_a_worker_ends_with_its_parent(split, tmp_path):
    write_data(tmp_path, split.final.train, split.final.users)
    code = (
        "from pathlib import Path\n"
        "from mom_pipeline.comparison.fitting import Budget, run_task\n"
        "from mom_pipeline.comparison.fitting import Task\n"
        f"here = Path({str(tmp_path)!r})\n"
        f"task = Task({STUBS!r}, 'writes_pid', ({{'path': str(here / 'pid')}},), 0, 5, True)\n"
        "run_task(here, here / 'task', task, Budget())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    pid_file = tmp_path / "pid"
    _wait(lambda: pid_file.exists() and pid_file.read_text())
    worker = int(pid_file.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    _wait(lambda: not Path(f"/proc/{worker}").exists())


def _wait(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not GOWALLA.exists(), reason="the Gowalla split is not beside the repository")
def test_popularity_on_gowalla_has_its_known_recall(tmp_path):
    split = split_of_files(GOWALLA / "train.txt.gz", GOWALLA / "test.txt.gz")
    some = split.final.sample(8000, np.random.default_rng(0))
    split = replace(split, final=some, validation=None)
    options = Options(("plain",), registry=STUBS, cutoffs=(20,))
    found = run_comparison(split, options, tmp_path / "scratch")
    assert len(split.final.users) == found.n_users == 8000
    assert found.data.users == 29_858
    assert found.data.name == "gowalla"
    assert found.result("plain").means["recall"][0] == pytest.approx(0.0416, abs=0.003)
