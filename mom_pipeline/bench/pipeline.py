"""Two days of logs of the paper's Ta-Feng size, and what they cost by library calls alone."""

import csv
import gzip
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.bench.clustered import clustered_interactions
from mom_pipeline.bench.timing import Stopwatch
from mom_pipeline.core.algorithm.daily_classes import (
    DayClasses,
    decompose_day,
    tensor_in_span,
    whiten_in_span,
    whitening_error,
)
from mom_pipeline.core.evaluation.backtest import foresight, refreshed
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.daily import DayMoments, advance
from mom_pipeline.core.ranking.lists import reasoned_lists
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.types import Csr, Float64
from mom_pipeline.logs.ingest import ingest_day
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.evaluations import delivered_pairs
from mom_pipeline.warehouse.matrix import matrix_as_of
from mom_pipeline.warehouse.recommendations import replace_lists

FIRST = date(2024, 3, 1)
SECOND = FIRST + timedelta(days=1)
_NEW_SHARE = 0.02
_SETTINGS = """\
[matrix]
min_item_users = 1
[model]
n_components = {n_components}
[evaluation]
horizon_days = 1
"""


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
    yesterday: tuple[Csr, DayMoments] | None = None
    classes: DayClasses | None = None
    model: FittedModel | None = None

    def run(self, day: date) -> dict[str, float]:
        """Compute one day; seconds by step, named like the assets."""
        settings, warehouse, clock = self.settings, Warehouse(self.settings), Stopwatch()
        with clock.step("raw_logs"):
            ingest_day(warehouse, day)
        with clock.step("interaction_matrix"):
            X = matrix_as_of(warehouse, day).interactions
        with clock.step("m2_statistics"):
            daily = DayState(settings).daily_settings
            sums = advance(X, self.yesterday, "the first day", daily).state
        moments = sums.moments
        with clock.step("whitening_matrix"):
            whitening = whiten_in_span(moments, settings.model.n_components)
            whitening_error(X, moments, whitening)
        with clock.step("whitened_tensor"):
            T = tensor_in_span(moments, whitening)
        with clock.step("decomposition"):
            start = None if self.classes is None else self.classes.anchor_components
            classes = decompose_day(
                X, moments, whitening, T, "clip", daily.seed, anchor_components=start
            )
        model = _served(settings, moments.sums.item_events, classes)
        with clock.step("user_personalization"):
            P = refreshed(None, X, np.arange(X.shape[0]), model)
        with clock.step("recommendations"):
            found = reasoned_lists(X, P, model, settings.serving.list_length)
            with warehouse.connect() as connection:
                replace_lists(connection, day, "bare", np.arange(X.shape[0]), found)
        with clock.step("evaluation_metrics"):
            if self.model is not None and self.yesterday is not None:
                test = delivered_pairs(warehouse, day - timedelta(days=1), day)
                foresight(self.model, self.yesterday[0], test, settings.evaluation.cutoffs)
        self.yesterday, self.classes, self.model = (X, sums), classes, model
        return clock.seconds


def _served(settings: Settings, item_events: Float64, classes: DayClasses) -> FittedModel:
    """Return what lists are made from."""
    chosen = settings.model
    return FittedModel(
        item_probs=classes.recovery.item_probs,
        weights=classes.recovery.weights,
        popularity=item_events / item_events.sum(),
        basis=classes.recovery.item_probs[:, :0],
        personalization=Personalization(
            chosen.personalization,  # type: ignore[arg-type]
            chosen.temperature,
            chosen.em_steps,
            chosen.smoothing,
        ),
        pair_ranking=None,
        diagnostics={},
    )
