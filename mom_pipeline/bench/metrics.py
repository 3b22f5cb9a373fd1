"""Benchmark of the metrics: speed against `ir_measures`, time and memory for many users."""

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench.data import random_interactions
from mom_pipeline.bench.measure import Progress, best_in_turns, no_progress, timed
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.evaluation.catalogue import catalogue_use
from mom_pipeline.core.evaluation.metrics import CUTOFFS, evaluate_ranking
from mom_pipeline.core.types import Array, Csr

_LENGTH = CUTOFFS[-1]
_TEST_ITEMS = 8
_USERS_PER_BLOCK = 4096
_MEGABYTE = 1_000_000


def run_metrics(
    n_users: int = 1_000_000,
    peer_users: int = 3_000,
    n_items: int = 718_675,
    *,
    seed: int = 0,
    repeats: int = 3,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Measure on random lists of 500 items, at all cut-offs of the paper.

    The peer is given its run as a dictionary, which it asks for; making that is not counted.
    Memory is what is allocated beyond the lists, which lie in a file, and the test matrix.
    """
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
        lists = _random_lists(Path(folder) / "lists", n_users, n_items, rng)
        train = random_interactions(n_users, n_items, _TEST_ITEMS * n_users, rng, zipf_exponent=0.8)
        test = random_interactions(n_users, n_items, _TEST_ITEMS * n_users, rng, zipf_exponent=0.8)
        progress("against ir_measures", 0.3)
        peer = _against_peer(lists[:peer_users], test[:peer_users], repeats)
        progress("time", 0.5)
        ours, _ = timed(lambda: evaluate_ranking(lists, test))
        catalogue, _ = timed(lambda: catalogue_use(lists, train))
        progress("memory", 0.8)
        allocated, results = _allocated(lists, test)
    return {
        "list_length": _LENGTH,
        "items": n_items,
        "seed": seed,
        **peer,
        "users": n_users,
        "seconds": ours.wall,
        "coverage_and_novelty_seconds": catalogue.wall,
        "peak_megabytes": allocated / _MEGABYTE,
        "of_which_values_per_user": results / _MEGABYTE,
        "lists_megabytes": lists.nbytes / _MEGABYTE,
    }


def _against_peer(lists: Array, test: Csr, repeats: int) -> dict[str, Any]:
    """Time both on the same lists, in turns; the best of each."""
    try:
        import ir_measures
    except ImportError as error:
        raise MomError(
            "ir_measures is not installed; `pip install 'mom-pipeline[test]'`"
        ) from error
    kinds = (ir_measures.P, ir_measures.R, ir_measures.AP, ir_measures.nDCG)
    measures = [kind @ k for kind in kinds for k in CUTOFFS]
    qrels, run = _as_dictionaries(lists, test)
    works = {
        "ours": lambda: timed(lambda: evaluate_ranking(lists, test))[0],
        "peer": lambda: timed(lambda: list(ir_measures.iter_calc(measures, qrels, run)))[0],
    }
    best = best_in_turns(works, repeats)
    recall = evaluate_ranking(lists, test).recall[_LENGTH]
    theirs = ir_measures.calc_aggregate([ir_measures.R @ _LENGTH], qrels, run)
    if not np.isclose(theirs[ir_measures.R @ _LENGTH], recall, rtol=1e-9):
        raise MomError(f"ir_measures gives a recall of {theirs}, evaluate_ranking {recall}")
    return {
        "peer_users": len(lists),
        "peer_seconds": best["peer"].wall,
        "our_seconds": best["ours"].wall,
        "times_as_fast": best["peer"].wall / best["ours"].wall,
    }


def _as_dictionaries(
    lists: Array, test: Csr
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Return test items and lists as the peer takes them; users without a test item left out."""
    users = np.flatnonzero(np.diff(test.indptr))
    qrels = {
        str(u): {str(y): 1 for y in test.indices[test.indptr[u] : test.indptr[u + 1]]}
        for u in users
    }
    run = {str(u): {str(y): float(-r) for r, y in enumerate(lists[u])} for u in users}
    return qrels, run


def _random_lists(path: Path, n_users: int, n_items: int, rng: np.random.Generator) -> Array:
    """Write lists of different items: a random start and a random step, modulo the catalogue."""
    if n_items < 2 * _LENGTH:
        raise MomError(f"lists of {_LENGTH} items need {2 * _LENGTH} items, found {n_items}")
    lists = np.memmap(path, dtype=np.int32, mode="w+", shape=(n_users, _LENGTH))
    for start in range(0, n_users, _USERS_PER_BLOCK):
        block = lists[start : start + _USERS_PER_BLOCK]
        first = rng.integers(0, n_items, (len(block), 1))
        step = rng.integers(1, n_items // _LENGTH + 1, (len(block), 1))
        block[:] = (first + step * np.arange(_LENGTH)) % n_items
    return lists


def _allocated(lists: Array, test: Csr) -> tuple[int, int]:
    """Return the most bytes that were allocated at once, and those of the result among them."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        metrics = evaluate_ranking(lists, test)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before, sum(values.nbytes for values in metrics.per_user.values())
