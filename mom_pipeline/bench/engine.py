"""The passes on worker processes: how they scale, what they move, what a large one would cost."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench.clustered import clustered_interactions
from mom_pipeline.bench.growth import first_part
from mom_pipeline.bench.timing import timed
from mom_pipeline.core.linear_algebra.eigenpairs import block_width
from mom_pipeline.core.moments.passes import MomentsPass, PairProductPass, TriplePass
from mom_pipeline.core.moments.sums import Estimator, MomentSums
from mom_pipeline.core.moments.users import Pass
from mom_pipeline.core.types import Array
from mom_pipeline.engine import Engine, LocalEngine, Shards, write_shards
from mom_pipeline.engine.dask import DaskEngine, dask_engine

N_WORKERS = 2
_SHARDS = 8
_ESTIMATOR = Estimator.of("balanced")

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class LargeData:
    """A data set past one machine, and the machines it is to be done on."""

    n_users: float = 1e9
    n_items: float = 10e6
    n_pairs: float = 20e9
    n_workers: int = 100
    bytes_per_second: float = 1.25e9  # a network of 10 Gbit/s


def run_engine(
    n_users: int = 800_000,
    n_items: int = 200_000,
    n_pairs: int = 4_800_000,
    n_components: int = 100,
    *,
    seed: int = 0,
    repeats: int = 3,
    progress: Progress = lambda text, share: None,
) -> dict[str, Any]:
    """Time every pass on one and on two workers, on all users and on half of them.

    strong: one worker against two on the same users; 2 would be perfect. weak: one worker on
    half of the users against two on all; 1 would be perfect. A first round that reads the shards
    is not counted; the best of `repeats` is.
    """
    X = clustered_interactions(n_users, n_items, n_pairs, np.random.default_rng(seed))
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
        shards = write_shards(X, str(Path(folder) / "shards"), n_shards=_SHARDS)
        half = first_part(shards, 0.5)
        sums = LocalEngine().add_up(MomentsPass(_ESTIMATOR), shards)
        passes = _passes(sums, n_components, np.random.default_rng(seed))
        local = {name: _best(LocalEngine(), work, shards, repeats) for name, work in passes.items()}
        progress("one worker", 0.2)
        with dask_engine(n_workers=1) as one:
            alone = {name: _best(one, work, shards, repeats) for name, work in passes.items()}
            on_half = {name: _best(one, work, half, repeats) for name, work in passes.items()}
        progress("two workers", 0.6)
        with dask_engine(n_workers=N_WORKERS) as two:
            together = {name: _best(two, work, shards, repeats) for name, work in passes.items()}
            moved = {name: _moved(two, work, shards) for name, work in passes.items()}
    rows = [
        {
            "pass": name,
            "local_seconds": local[name],
            "one_worker_seconds": alone[name],
            "two_workers_seconds": together[name],
            "strong": alone[name] / together[name],
            "weak": on_half[name] / together[name],
            **moved[name],
        }
        for name in passes
    ]
    width = block_width(n_components, n_items)
    constants = {
        "ns_per_pair_and_column": 1e9 * alone["pair product"] / (X.nnz * width),
        "us_per_user_and_tensor": 1e6 * alone["tensor"] / n_users,
    }
    return {
        "n_users": n_users,
        "n_items": n_items,
        "n_pairs": int(X.nnz),
        "n_components": n_components,
        "shards": _SHARDS,
        "rows": rows,
        "constants": constants,
        "projected": projected(constants, LargeData(), n_components),
    }


def projected(constants: dict[str, float], large: LargeData, n_components: int) -> dict[str, float]:
    """Return the seconds of a pass on many one-core workers, from what one core was measured at.

    A pass sends its (D, columns) block to every worker, each on to the next, so that its bytes
    cross a network link once; the sums come back through a tree of log2(workers) additions.
    """
    width = block_width(n_components, int(large.n_items))
    block = 4 * large.n_items * width
    hops = 1 + float(np.ceil(np.log2(large.n_workers)))
    product = 1e-9 * constants["ns_per_pair_and_column"] * large.n_pairs * width
    tensor = 1e-6 * constants["us_per_user_and_tensor"] * large.n_users
    basis = 4 * large.n_items * n_components
    return {
        "pair_product_compute_seconds": product / large.n_workers,
        "pair_product_network_seconds": hops * block / large.bytes_per_second,
        "tensor_compute_seconds": tensor / large.n_workers,
        "tensor_network_seconds": basis / large.bytes_per_second,
        "block_gigabytes": block / 1e9,
    }


def _passes(sums: MomentSums, n_components: int, rng: np.random.Generator) -> dict[str, Pass[Any]]:
    D = len(sums.item_events)
    scale = _ESTIMATOR.item_scale(sums.item_users)

    def block(width: int) -> Array:
        return rng.standard_normal((D, width), dtype=np.float32)

    narrow = block(block_width(n_components, D))
    return {
        "moments": MomentsPass(_ESTIMATOR),
        "pair product": PairProductPass(narrow, sums.pair_weight, _ESTIMATOR, scale),
        "tensor": TriplePass(block(n_components), _ESTIMATOR),
    }


def _best(engine: Engine, work: Pass[Any], shards: Shards, repeats: int) -> float:
    engine.add_up(work, shards)
    return min(timed(lambda: engine.add_up(work, shards))[0].wall for _ in range(repeats))


def _moved(engine: DaskEngine, work: Pass[Any], shards: Shards) -> dict[str, float]:
    """Return the bytes of a pass: sent along with it, and passed on by the workers."""
    before = engine.bytes_passed_on()
    engine.add_up(work, shards)
    return {
        "sent_bytes": float(_size_of(work)),
        "passed_on_bytes": float(engine.bytes_passed_on() - before),
    }


def _size_of(work: Pass[Any]) -> int:
    arrays = (value for value in vars(work).values() if isinstance(value, np.ndarray))
    return sum(array.nbytes for array in arrays)
