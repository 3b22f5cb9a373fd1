"""How time and memory grow with the users, streamed from shards; up to ten million of them."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench.clustered import ClusteredCatalogue
from mom_pipeline.bench.processes import in_a_process
from mom_pipeline.bench.timing import timed
from mom_pipeline.comparison.answering import peak_bytes
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.engine import LocalEngine, ShardedUsers, Shards, ShardWriter
from mom_pipeline.engine.outputs import write_memberships
from mom_pipeline.pictures import drawn, xy_curves

FACTORS = (1, 2, 4, 8)
_SHARDS_PER_STEP = 4
_USERS_PER_BLOCK = 500_000
_DATA_SHARE = 0.3

Progress = Callable[[str, float], None]


def run_growth(
    n_users: int = 10_000_000,
    n_items: int = 718_675,
    n_pairs: int = 57_000_000,
    n_components: int = 100,
    *,
    seed: int = 0,
    progress: Progress = lambda text, share: None,
) -> dict[str, Any]:
    """Fit an eighth, a quarter, a half and all of the users, each in a process of its own.

    Shards hold a random part of the users each, so that the first eighth of the shards is an
    eighth of the users. Measured are the fit and everybody's memberships, written to files.
    """
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
        shards = _write(str(Path(folder) / "shards"), n_users, n_items, n_pairs, seed, progress)
        rows: list[dict[str, Any]] = []
        for factor in FACTORS:
            part = first_part(shards, factor / FACTORS[-1])
            done = sum(FACTORS[: len(rows)]) / sum(FACTORS)
            progress(f"{part.shape[0]:,} users", _DATA_SHARE + (1 - _DATA_SHARE) * done)
            results = str(Path(folder) / f"memberships-{factor}")
            found = in_a_process(_fit, part, n_components, seed, results)
            rows.append({"factor": factor, **found})
    return {
        "n_items": n_items,
        "n_components": n_components,
        "seed": seed,
        "rows": [
            row
            | {
                "seconds_to_first": row["seconds"] / rows[0]["seconds"],
                "peak_to_first": row["peak_bytes"] / rows[0]["peak_bytes"],
            }
            for row in rows
        ],
    }


def first_part(shards: Shards, share: float) -> Shards:
    """Return the first shards, and count the users that they hold."""
    entries = shards.entries[: round(share * len(shards.entries))]
    n_users = sum(entry.n_users for entry in entries)
    return replace(shards, shape=(n_users, shards.shape[1]), entries=entries)


def _write(
    url: str, n_users: int, n_items: int, n_pairs: int, seed: int, progress: Progress
) -> Shards:
    rng = np.random.default_rng(seed)
    catalogue = ClusteredCatalogue.of(n_items, min(100, n_items), rng)
    with ShardWriter(url, n_items, _SHARDS_PER_STEP * FACTORS[-1]) as writer:
        for start in range(0, n_users, _USERS_PER_BLOCK):
            stop = min(start + _USERS_PER_BLOCK, n_users)
            pairs = n_pairs * stop // n_users - n_pairs * start // n_users
            writer.add(catalogue.interactions(stop - start, pairs, rng))
            progress("data", _DATA_SHARE * stop / n_users)
    return writer.shards


def _fit(shards: Shards, n_components: int, seed: int, folder: str) -> dict[str, Any]:
    engine = LocalEngine()
    model = MethodOfMoments(n_components, ranking="classes", seed=seed)
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


def plot_growth(result: dict[str, Any], path: Path) -> None:
    """Draw seconds and memory against the users, as multiples of the smallest run."""
    rows = result["rows"]
    users = [row["n_users"] / 1e6 for row in rows]
    series = {
        "linear": [u / users[0] for u in users],
        f"time ({rows[0]['seconds']:.0f} s)": [row["seconds_to_first"] for row in rows],
        f"peak memory ({rows[0]['peak_bytes'] / 1e9:.1f} GB)": [
            row["peak_to_first"] for row in rows
        ],
    }
    picture = xy_curves(
        {name: (users, values) for name, values in series.items()},
        title=f"Growth with the users (K = {result['n_components']})",
        x="users, millions",
        y="multiple of the first",
    )
    path.write_bytes(drawn(picture, "png"))
