"""Benchmark of Dagster's overhead: two days through the pipeline, and by library calls alone."""

import csv
import gzip
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.timings import seconds_of
from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.measure import Progress, Stopwatch, Table, in_a_process, no_progress
from mom_pipeline.core.algorithm.decompose import decompose
from mom_pipeline.core.algorithm.whitening import whitening_error
from mom_pipeline.core.evaluation.backtest import backtest
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.days import Yesterday, advance
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.explain import reasoned_lists
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.visits import HistoryOf, UserLists
from mom_pipeline.logs.ingest import ingest_day
from mom_pipeline.settings import DATA_DIR_VARIABLE, Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.evaluations import delivered_pairs
from mom_pipeline.warehouse.matrix import matrix_as_of
from mom_pipeline.warehouse.recommendations import replace_lists

FIRST = date(2024, 3, 1)
SECOND = FIRST + timedelta(days=1)
_NEW_SHARE = 0.02
# The promise: a day costs at most so many times the bare calls, and so much for every asset.
_TIMES, _SECONDS_PER_ASSET = 1.3, 0.5
_SETTINGS = """\
[matrix]
min_item_users = 1
[model]
n_components = {n_components}
ranking = "components"
[evaluation]
horizon_days = 1
[tuning]
every_days = 0
"""


def run_pipeline(
    n_users: int,
    n_items: int,
    n_pairs: int,
    n_components: int,
    *,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Time the days through Dagster and by library calls, on the same logs."""
    sides = {"bare": run_bare, "dagster": run_through_dagster}
    seconds: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as scratch:
        for name, run in sides.items():
            progress(name, len(seconds) / len(sides))
            folder = Path(scratch) / name
            write_folder(folder, n_users, n_items, n_pairs, n_components, seed)
            variables = {DATA_DIR_VARIABLE: str(folder)}
            seconds[name] = in_a_process(run, folder, environment=variables)
    bare, dagster = seconds["bare"], seconds["dagster"]
    return {"days": [_compared(day, bare[day], dagster[day]) for day in bare]}


def _compared(day: str, bare: dict[str, float], dagster: dict[str, Any]) -> dict[str, Any]:
    total = sum(bare.values())
    assets = dagster["assets"]
    return {
        "day": day,
        "dagster_seconds": dagster["total"],
        "bare_seconds": total,
        "allowed_seconds": _TIMES * total + _SECONDS_PER_ASSET * len(assets),
        "assets": [
            {"asset": name, "dagster": seconds, "bare": bare.get(name, 0.0)}
            for name, seconds in assets.items()
        ],
    }


def tables_pipeline(result: dict[str, Any]) -> list[Table]:
    """A table per day, a row per asset."""
    tables = []
    for day in result["days"]:
        title = (
            f"{day['day']}: {day['dagster_seconds']:.1f} s with Dagster, "
            f"{day['bare_seconds']:.1f} s bare; allowed {day['allowed_seconds']:.1f} s"
        )
        rows = [
            {
                "asset": asset["asset"],
                "with Dagster, s": f"{asset['dagster']:.2f}",
                "bare, s": f"{asset['bare']:.2f}",
            }
            for asset in day["assets"]
        ]
        tables.append(Table(title, rows))
    return tables


def run_through_dagster(folder: Path) -> dict[str, dict[str, Any]]:
    """Materialize every asset of both days, each day in a run of its own."""
    import dagster as dg

    from mom_pipeline.dagster_home import prepare_dagster_home
    from mom_pipeline.definitions import ASSETS, defs
    from mom_pipeline.defs.run_tags import range_tags

    prepare_dagster_home(load_settings(folder))
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    names = [asset.key.to_user_string() for asset in ASSETS]
    seconds = {}
    for day in (FIRST, SECOND):
        begin = time.perf_counter()
        with dg.DagsterInstance.get() as instance:
            defs.resolve_job_def("daily_update").execute_in_process(
                instance=instance, tags=range_tags(day, day), run_config=quiet
            )
        total, own = time.perf_counter() - begin, seconds_of(folder, day)
        seconds[str(day)] = {"total": total, "assets": {name: own[name] for name in names}}
    return seconds


def write_folder(
    folder: Path, n_users: int, n_items: int, n_pairs: int, n_components: int, seed: int
) -> None:
    """Write settings and logs: nearly all events on the first day, those of a few users after."""
    rng = np.random.default_rng(seed)
    X = clustered_interactions(n_users, n_items, n_pairs, rng)
    users = np.repeat(np.arange(n_users), np.diff(X.indptr))
    late = np.isin(users, rng.choice(n_users, round(_NEW_SHARE * n_users), replace=False))
    late &= rng.random(len(users)) < 0.5
    (folder / "logs").mkdir(parents=True)
    (folder / "pipeline.toml").write_text(_SETTINGS.format(n_components=n_components))
    for day, own in ((FIRST, ~late), (SECOND, late)):
        with gzip.open(folder / "logs" / f"{day}.csv.gz", "wt", compresslevel=1) as file:
            out = csv.writer(file)
            out.writerow(("user", "item", "timestamp"))
            pairs = zip(users[own].tolist(), X.indices[own].tolist(), strict=True)
            out.writerows((f"u{u}", f"i{y}", f"{day}T12:00:00") for u, y in pairs)


def run_bare(folder: Path) -> dict[str, dict[str, float]]:
    """Do both days by library calls; the seconds of each step by day."""
    days = BareDays(load_settings(folder))
    return {str(day): days.run(day) for day in (FIRST, SECOND)}


@dataclass
class BareDays:
    """What a day hands to the next, in memory: nothing is stored but events and lists."""

    settings: Settings
    yesterday: Yesterday | None = None
    model: FittedModel | None = None

    def run(self, day: date) -> dict[str, float]:
        """Compute one day; seconds by step, named like the assets."""
        settings, warehouse, clock = self.settings, Warehouse(self.settings), Stopwatch()
        state = DayState(settings)
        with clock.step("raw_logs"):
            ingest_day(warehouse, day)
        with clock.step("interaction_matrix"):
            X = matrix_as_of(warehouse, day).interactions
        with clock.step("m2_statistics"):
            step = advance(X, self.yesterday, "the first day", state.moment_settings(day))
        with clock.step("decomposition"):  # with whitening and tensor, which are small
            components = decompose(step.anchor, step.sums, state.decompose_settings(day))
            whitening_error(UsersInMemory(X), step.anchor, step.sums, components.whitening)
        model = FittedModel(
            components.item_probs,
            components.weights,
            step.sums.first.popularity,
            Personalization.from_settings(settings.model),
            rows=settings.model.rows,
        )
        with clock.step("user_personalization"):
            P = model.memberships(X)
        with clock.step("recommendations"):
            lists = reasoned_lists(X, P, model, settings.serving.list_length)
            with warehouse.connect() as connection:
                parts = [UserLists(np.arange(X.shape[0]), lists, 0)]
                replace_lists(connection, day, "bare", parts)
        with clock.step("evaluation_metrics"):
            self._backtest(warehouse, day)
        start = step.anchor.components
        anchor = replace(step.anchor, components=components.in_span if start is None else start)
        self.yesterday, self.model = Yesterday(X, anchor, step.sums), model
        return clock.seconds

    def _backtest(self, warehouse: Warehouse, day: date) -> None:
        """Measure yesterday's model on today's events."""
        if self.model is not None and self.yesterday is not None:
            test = delivered_pairs(warehouse, day - timedelta(days=1), day)
            history, train = HistoryOf(self.model), UsersInMemory(self.yesterday.X)
            backtest(history, train, test, self.settings.evaluation.cutoffs)
