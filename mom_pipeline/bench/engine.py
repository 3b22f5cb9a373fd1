"""Benchmarks of shards: passes on worker processes; growth of time and memory with the users."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench.data import ClusteredCatalogue, clustered_interactions
from mom_pipeline.bench.measure import (
    Progress,
    Table,
    best_in_turns,
    described,
    in_a_process,
    no_progress,
    timed,
    value_table,
)
from mom_pipeline.comparison.isolated import peak_bytes
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.linear_algebra.eigenpairs import block_width
from mom_pipeline.core.moments.anchored import Anchor
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.moments.users import AnchoredPass, MomentsPass, PairProductPass, Pass
from mom_pipeline.core.types import Array
from mom_pipeline.engine import (
    Engine,
    LocalEngine,
    ShardedUsers,
    Shards,
    ShardWriter,
    write_shards,
)
from mom_pipeline.engine.dask import DaskEngine, bytes_held, dask_engine
from mom_pipeline.engine.outputs import write_memberships
from mom_pipeline.engine.shards import suitable_number
from mom_pipeline.pictures.charts import xy_curves
from mom_pipeline.pictures.png import png

N_WORKERS = 2
_SHARDS = 8
_ESTIMATOR = Estimator.from_name("balanced")
EIGHTHS = ("1", "2", "4", "8")
_USERS_PER_BLOCK = 1_000_000
_DATA_SHARE = 0.3


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
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Time every pass on one and on two workers, on all users and on half of them.

    strong: one worker against two on the same users; 2 would be perfect. weak: one worker on
    half of the users against two on all; 1 would be perfect. A first round that reads the shards
    is not counted; the best of `repeats` is.
    """
    X = clustered_interactions(n_users, n_items, n_pairs, np.random.default_rng(seed))
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
        shards = write_shards(X, str(Path(folder) / "shards"), n_shards=_SHARDS)
        sums = LocalEngine().add_up(MomentsPass(_ESTIMATOR), shards)
        passes = _passes(sums, n_components, np.random.default_rng(seed))
        rows = _rows(passes, shards, repeats, progress)
    alone = {row["pass"]: row["one_worker_seconds"] for row in rows}
    width = block_width(n_components, n_items)
    constants = {
        "ns_per_pair_and_column": 1e9 * alone["pair product"] / (X.nnz * width),
        "us_per_user_and_tensor": 1e6 * alone["tensor"] / n_users,
    }
    return {
        **described(X, n_components, seed),
        "shards": _SHARDS,
        "rows": rows,
        "constants": constants,
        "projected": projected(constants, LargeData(), n_components),
    }


def _rows(
    passes: dict[str, Pass[Any]], shards: Shards, repeats: int, progress: Progress
) -> list[dict[str, Any]]:
    local = _seconds(LocalEngine(), passes, shards, repeats)
    progress("one worker", 0.2)
    with dask_engine(n_workers=1) as one:
        alone = _seconds(one, passes, shards, repeats)
        on_half = _seconds(one, passes, first_part(shards, 0.5), repeats)
    progress("two workers", 0.6)
    with dask_engine(n_workers=N_WORKERS) as two:
        together = _seconds(two, passes, shards, repeats)
        moved = {name: _moved(two, work, shards) for name, work in passes.items()}
    return [
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


def tables_engine(result: dict[str, Any]) -> list[Table]:
    """The passes, the constants of one core, and what follows for many."""
    rows = [
        {
            "pass": row["pass"],
            "local, s": f"{row['local_seconds']:.2f}",
            "one worker, s": f"{row['one_worker_seconds']:.2f}",
            "two, s": f"{row['two_workers_seconds']:.2f}",
            "strong": f"{row['strong']:.2f}",
            "weak": f"{row['weak']:.2f}",
            "sent, MB": f"{row['sent_bytes'] / 1e6:,.1f}",
            "passed on, MB": f"{row['passed_on_bytes'] / 1e6:,.1f}",
        }
        for row in result["rows"]
    ]
    title = (
        f"{result['n_users']:,} users, {result['n_items']:,} items, {result['n_pairs']:,} pairs "
        f"in {result['shards']} shards"
    )
    return [
        Table(title, rows),
        value_table("Constants of one core", result["constants"]),
        value_table("On 100 workers", result["projected"]),
    ]


def projected(constants: dict[str, float], large: LargeData, n_components: int) -> dict[str, float]:
    """Return the seconds of a pass on many one-core workers, from what one core was measured at.

    A pass sends its (D, columns) block to every worker, each on to the next, so that its bytes
    cross a network link once; sums of the same size come back through a tree of log2(workers)
    additions.
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
        "tensor_network_seconds": hops * basis / large.bytes_per_second,
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
        "tensor": AnchoredPass(Anchor(block(n_components), scale, _ESTIMATOR)),
    }


def _seconds(
    engine: Engine, passes: dict[str, Pass[Any]], shards: Shards, repeats: int
) -> dict[str, float]:
    works = {
        name: lambda work=work: timed(lambda: engine.add_up(work, shards))[0]
        for name, work in passes.items()
    }
    best = best_in_turns(works, repeats, warm_up=True)
    return {name: seconds.wall for name, seconds in best.items()}


def _moved(engine: DaskEngine, work: Pass[Any], shards: Shards) -> dict[str, float]:
    """Return the bytes of a pass: sent along with it, and passed on by the workers."""
    before = engine.bytes_passed_on()
    engine.add_up(work, shards)
    return {
        "sent_bytes": float(bytes_held(work)),
        "passed_on_bytes": float(engine.bytes_passed_on() - before),
    }


def run_growth(
    n_users: int = 10_000_000,
    n_items: int = 718_675,
    n_pairs: int = 57_000_000,
    n_components: int = 100,
    *,
    eighths: Sequence[str] = EIGHTHS,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Fit some eighths of the users, each in a process of its own.

    Shards hold a random part of the users each, so that the first eighth of the shards is an
    eighth of the users. Measured are the fit and everybody's memberships, written to files. The
    slope is that of log time against log users: 1 is linear.
    """
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
        shards = _write(str(Path(folder) / "shards"), n_users, n_items, n_pairs, seed, progress)
        rows: list[dict[str, Any]] = []
        factors = sorted(map(int, eighths))
        for factor in factors:
            part = first_part(shards, factor / 8)
            done = sum(factors[: len(rows)]) / sum(factors)
            progress(f"{part.shape[0]:,} users", _DATA_SHARE + (1 - _DATA_SHARE) * done)
            with tempfile.TemporaryDirectory(dir=folder) as memberships:
                measured = in_a_process(_fit, part, n_components, seed, memberships)
                disk = {
                    "shard_bytes": sum(_size(shards.url, entry.name) for entry in part.entries),
                    "membership_bytes": sum(_size(memberships, e.name) for e in part.entries),
                }
            rows.append({"factor": factor, **measured, **disk})
    users, seconds = ([row[name] for row in rows] for name in ("n_users", "seconds"))
    return {
        "n_items": n_items,
        "n_components": n_components,
        "seed": seed,
        "slope": _slope(users, seconds),
        "rows": [
            row
            | {
                "seconds_to_first": row["seconds"] / rows[0]["seconds"],
                "peak_to_first": row["peak_bytes"] / rows[0]["peak_bytes"],
            }
            for row in rows
        ],
    }


def _slope(users: list[int], seconds: list[float]) -> float:
    """Return the slope of log time against log users; no number for a single part."""
    if len(users) < 2:
        return float("nan")
    return float(np.polyfit(np.log(users), np.log(seconds), 1)[0])


def first_part(shards: Shards, share: float) -> Shards:
    """Return the first shards, and count the users that they hold."""
    entries = shards.entries[: round(share * len(shards.entries))]
    n_users = sum(entry.n_users for entry in entries)
    return replace(shards, shape=(n_users, shards.shape[1]), entries=entries)


def _write(
    url: str, n_users: int, n_items: int, n_pairs: int, seed: int, progress: Progress
) -> Shards:
    rng = np.random.default_rng(seed)
    catalogue = ClusteredCatalogue.random(n_items, min(100, n_items), rng)
    per_eighth = -(-suitable_number(n_pairs) // 8)
    with ShardWriter(url, n_items, per_eighth * 8) as writer:
        for start in range(0, n_users, _USERS_PER_BLOCK):
            stop = min(start + _USERS_PER_BLOCK, n_users)
            pairs = n_pairs * stop // n_users - n_pairs * start // n_users
            writer.add(catalogue.interactions(stop - start, pairs, rng))
            progress("data", _DATA_SHARE * stop / n_users)
    return writer.shards


def _size(folder: str, name: str) -> int:
    return (Path(folder) / name).stat().st_size


def _fit(shards: Shards, n_components: int, seed: int, folder: str) -> dict[str, Any]:
    engine = LocalEngine()
    model = MethodOfMoments(n_components, ranking="components", seed=seed)
    fit, _ = timed(lambda: model.fit_users(ShardedUsers(engine, shards)))
    everyone, n_users = timed(lambda: write_memberships(engine, shards, model, folder))
    return {
        "n_users": n_users,
        "n_pairs": shards.n_pairs,
        "seconds": fit.wall + everyone.wall,
        "fit_seconds": fit.wall,
        "memberships_seconds": everyone.wall,
        "stages": model.diagnostics["seconds"],
        "peak_bytes": peak_bytes(),
    }


def tables_growth(result: dict[str, Any]) -> list[Table]:
    """A row per number of users."""
    rows = [
        {
            "users": f"{row['n_users']:,}",
            "pairs": f"{row['n_pairs']:,}",
            "seconds": f"{row['seconds']:.1f}",
            "multiple": f"{row['seconds_to_first']:.2f}",
            "of which fit": f"{row['fit_seconds']:.1f}",
            "peak, GB": f"{row['peak_bytes'] / 1e9:.2f}",
            "multiple ": f"{row['peak_to_first']:.2f}",
            "shards, GB": f"{row['shard_bytes'] / 1e9:.2f}",
            "memberships, GB": f"{row['membership_bytes'] / 1e9:.2f}",
        }
        for row in result["rows"]
    ]
    title = f"Growth, {result['n_items']:,} items, K = {result['n_components']}"
    return [Table(f"{title}; slope of log time on log users {result['slope']:.2f}", rows)]


def plot_growth(result: dict[str, Any]) -> bytes:
    """Draw seconds and memory against the users, as multiples of the smallest run."""
    rows = result["rows"]
    users = [row["n_users"] / 1e6 for row in rows]
    seconds, peak = rows[0]["seconds"], rows[0]["peak_bytes"] / 1e9
    series = {
        "linear": [u / users[0] for u in users],
        f"time ({seconds:.0f} s)": [row["seconds_to_first"] for row in rows],
        f"peak memory ({peak:.1f} GB)": [row["peak_to_first"] for row in rows],
    }
    figure = xy_curves(
        {name: (users, values) for name, values in series.items()},
        title=f"Growth with the users (K = {result['n_components']})",
        x="users, millions",
        y="multiple of the first",
    )
    return png(figure)
