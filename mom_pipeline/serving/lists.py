"""The lists of the model in use as a table and an export: what every other answer gives, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.core.files import locked
from mom_pipeline.core.moments.users import IN_MEMORY, DayRows, RowsEngine
from mom_pipeline.core.ranking.lists import ListsVisit
from mom_pipeline.serving.registry import EvaluatedDay, ModelRegistry
from mom_pipeline.serving.rules import Rules
from mom_pipeline.serving.served_model import TREND_DAYS
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.lists import MetricsRow, export_lists, metrics_until, replace_lists

# Users whose lists are in memory at a time.
_BLOCK = 65_536


@dataclass(frozen=True)
class RenewedLists:
    """What was written. model: the version in use."""

    model: str
    users: int
    items: int
    rows: int
    export: Path


def export_path(settings: Settings) -> Path:
    """Where everybody's lists lie as one file."""
    return settings.exports_dir / "recommendations.parquet"


def renew_lists(
    settings: Settings, warehouse: Warehouse, engine: RowsEngine = IN_MEMORY
) -> RenewedLists:
    """Write the lists of the model in use to table and export, in turns, or raise NoChampion."""
    path, rules = export_path(settings), Rules.of(settings)
    with locked(path.parent):
        registry = ModelRegistry(settings.models_dir, mapped=settings.engine.mapped)
        served = registry.champion()
        version, X = served.manifest.version, served.histories
        model = rules.applied_to(served).answering()
        work = ListsVisit(model, settings.serving.list_length, rules.exclude_seen)
        users = engine.users(DayRows(X, served.last_days, version))
        blocks = (np.arange(i, min(i + _BLOCK, X.shape[0])) for i in range(0, X.shape[0], _BLOCK))
        parts = (part for block in blocks for part in users.visit(work, block))
        lists = ((part.users, part.lists) for part in parts)
        with warehouse.connect() as connection:
            rows = replace_lists(connection, version, served.user_ids, served.item_ids, lists)
            export_lists(connection, path, rules.catalogue)
            measured = metrics_until(connection, date.fromisoformat(served.manifest.day))
            registry.note_evaluated(evaluated_days(measured))
    return RenewedLists(version, X.shape[0], X.shape[1], rows, path)


def evaluated_days(rows: Sequence[MetricsRow]) -> list[EvaluatedDay]:
    """The newest evaluations beside popularity, at the cut-off that is shown."""
    k = nearest_cutoff(sorted({row.cutoff for row in rows}) or [0])
    shown = {(row.day, row.ranking == "popularity"): row for row in rows if row.cutoff == k}
    return [
        EvaluatedDay(row.day.isoformat(), k, row.users, row.recall, shown[row.day, True].recall)
        for (_, is_popularity), row in shown.items()
        if not is_popularity and (row.day, True) in shown
    ][-TREND_DAYS:]
