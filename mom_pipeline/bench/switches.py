"""Benchmark of the switches: both ways of a product on either side of where one is chosen.

Where two ways give the same numbers, the code takes the one that it expects to be cheaper. Each
row holds both times in turns, what was chosen, and how much longer that took than the better one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import Progress, Seconds, Table, best_in_turns, no_progress, timed
from mom_pipeline.core.linear_algebra.eigenpairs import (
    DIRECT_ITEMS,
    block_width,
    guarded_width,
    is_direct,
    top_eigenpairs,
    working_precision,
)
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.pairs import PairMoments
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.bounded import ExactTop
from mom_pipeline.core.ranking.factored import BoundedFactors
from mom_pipeline.core.ranking.item_matrix import ItemMatrix
from mom_pipeline.core.ranking.low_pass import LowPass, scaled_pairs
from mom_pipeline.core.ranking.parts import Histories, Pairs
from mom_pipeline.core.ranking.score import Score
from mom_pipeline.core.types import Csr

_ESTIMATOR = Estimator.from_name("balanced")
_PASSES = 10
_PAIRS_PER_USER = 8
_USERS_ASKED = 256
_RANK, _LENGTH = 256, 20


@dataclass(frozen=True)
class Switch:
    """Two ways of the same work. size: what the choice depends on.  chosen: a name of `ways`."""

    name: str
    size: str
    ways: dict[str, Callable[[], object]]
    chosen: str


def run_switches(
    n_components: int = 50,
    *,
    items: tuple[int, ...] = (300, 1_000, 2_000, 4_000),
    catalogues: tuple[int, ...] = (9_000, 18_000, 36_000, 72_000),
    seed: int = 0,
    repeats: int = 3,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Time both ways of every switch at some sizes, around where the choice changes.

    catalogues: numbers of items to make lists of.
    """
    rng = np.random.default_rng(seed)
    rows, switches = [], list(_all_switches(items, n_components, rng))
    switches += [_heads(n_items, rng) for n_items in catalogues]
    for number, switch in enumerate(switches):
        works = {name: partial(_seconds, work) for name, work in switch.ways.items()}
        best = {n: s.wall for n, s in best_in_turns(works, repeats, warm_up=True).items()}
        rows.append(
            {
                "switch": switch.name,
                "size": switch.size,
                "seconds": best,
                "chosen": switch.chosen,
                "to_the_better": best[switch.chosen] / min(best.values()),
            }
        )
        progress(f"{switch.name}, {switch.size}", (number + 1) / len(switches))
    return {"n_components": n_components, "rows": rows}


def _seconds(work: Callable[[], object]) -> Seconds:
    return timed(work)[0]


def tables_switches(result: dict[str, Any]) -> list[Table]:
    """A row per switch and size."""
    rows = [
        {
            "switch": row["switch"],
            "size": row["size"],
            **{f"way {i + 1}": f"{n} {s:.3f} s" for i, (n, s) in enumerate(row["seconds"].items())},
            "chosen": row["chosen"],
            "× the better": f"{row['to_the_better']:.2f}",
        }
        for row in result["rows"]
    ]
    return [Table(f"Switches, K = {result['n_components']}", rows)]


def _all_switches(
    items: tuple[int, ...], n_components: int, rng: np.random.Generator
) -> Iterator[Switch]:
    for D in items:
        for pairs_per_item in (10, 200):
            X = clustered_interactions(
                D * pairs_per_item // _PAIRS_PER_USER, D, D * pairs_per_item, rng
            )
            if D > DIRECT_ITEMS:  # otherwise LAPACK takes the matrix
                yield _written_out(X, n_components)
        for k in (n_components, D // 5):
            yield _direct(X, k)
        yield _precision(X, n_components)
        for share in (0.02, 0.1, 0.4):
            yield _dense_rows(X[:_USERS_ASKED], share, rng)


def _written_out(X: Csr, n_components: int) -> Switch:
    """M2 as a matrix, or R^T (R Q): all products of an iteration, the matrix included."""
    M2 = _moments(X, np.float64)
    Q = np.ones((X.shape[1], block_width(n_components, X.shape[1])))

    def products(written_out: bool) -> object:
        operator = PairMoments.exact(replace(M2).explicit) if written_out else M2
        return [operator.apply(Q) for _ in range(_PASSES)]

    return Switch(
        "M2",
        f"{X.shape[1]:,} items, {X.nnz:,} pairs",
        {"matrix": lambda: products(True), "rows": lambda: products(False)},
        "rows",
    )


def _direct(X: Csr, n_components: int) -> Switch:
    """LAPACK, M2 written out for it, or block Krylov from the rows."""
    M2 = _moments(X, np.float64)

    def eigenpairs(direct: bool) -> object:
        rng = np.random.default_rng(0)
        return top_eigenpairs(replace(M2), n_components, rng, max_passes=_PASSES, direct=direct)

    return Switch(
        "eigenpairs",
        f"{n_components} of {X.shape[1]:,} items",
        {"LAPACK": lambda: eigenpairs(True), "Krylov": lambda: eigenpairs(False)},
        "LAPACK" if is_direct(M2, n_components, _PASSES) else "Krylov",
    )


def _precision(X: Csr, n_components: int) -> Switch:
    """Products in single or in double precision."""
    D = X.shape[1]

    def product(dtype: type[np.floating]) -> Callable[[], object]:
        M2 = _moments(X, dtype)
        Q = np.ones((D, guarded_width(n_components, D)), dtype=dtype)
        return lambda: M2.apply(Q)

    chosen = working_precision(n_components, D)
    return Switch(
        "precision",
        f"{D:,} items",
        {"single": product(np.float32), "double": product(np.float64)},
        "single" if chosen is np.float32 else "double",
    )


def _dense_rows(X: Csr, share: float, rng: np.random.Generator) -> Switch:
    """Rows of an items x items matrix added up over histories, sparse or written out."""
    D = X.shape[1]
    taken = np.where(rng.random((D, D)) < share, rng.random((D, D)), 0).astype(np.float32)
    entries: Csr = sparse.csr_array(taken)
    weights = np.ones((X.nnz, 1), dtype=np.float32)
    ways = {
        "dense": ItemMatrix(entries, dense=True),
        "sparse": ItemMatrix(entries, dense=False),
    }
    return Switch(
        "pairs of a history",
        f"{D:,} items, {share:.0%} of all pairs",
        {name: partial(own.sums, X, weights) for name, own in ways.items()},
        "dense" if ItemMatrix(entries).is_dense else "sparse",
    )


def _heads(n_items: int, rng: np.random.Generator) -> Switch:
    """Lists by pairs and their low-pass part: a head of the items, or the whole catalogue."""
    X = clustered_interactions(n_items, n_items, n_items * _PAIRS_PER_USER, rng)
    smoothed = scaled_pairs(UsersInMemory(X), 1.0, 0.5)
    low_pass = LowPass.from_pairs(smoothed, rng, rank=min(_RANK, n_items // 4))
    score = Score(((Pairs.from_rows(X), 1.0), (low_pass, 0.5)))
    asked = Histories(X[: 2 * _USERS_ASKED], lambda rows: np.ones((rows.shape[0], 1)))

    def lists(heads: BoundedFactors | None) -> Callable[[], object]:
        top = ExactTop(score, np.ones(n_items, dtype=bool))
        top.__dict__["_factored"] = heads
        return lambda: top.best(asked, _LENGTH)

    return Switch(
        "lists",
        f"{n_items:,} items",
        {
            "head": lists(BoundedFactors.from_score(score, n_items, least_saved=0)),
            "whole": lists(None),
        },
        "whole" if BoundedFactors.from_score(score, n_items) is None else "head",
    )


def _moments(X: Csr, dtype: type[np.floating]) -> PairMoments:
    sums = MomentSums.from_rows(X, _ESTIMATOR)
    return PairMoments.from_rows(X, sums, _ESTIMATOR, dtype=dtype)
