"""The model in use as one DuckDB file that answers without us: tables, and macros over them."""

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from mom_pipeline.core.files import replacing
from mom_pipeline.core.ranking.item_matrix import owners
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import OWN_FEATURES
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.exports.tables import NotExported, check_path
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.rules import Rules
from mom_pipeline.serving.served_model import ServedModel
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import load_sql

# Read by DuckDB from that version on.
_STORAGE = "v1.2.0"
_DAY = "DATE '0001-01-01' + (number - 1)::INTEGER"
# Table -> the query that makes it of registered arrays, in the order in which rows are looked up.
_TABLES = {
    "model": f"version, day::DATE AS day, {_DAY} AS newest, exclude_seen FROM given",
    "items": "* FROM given ORDER BY y",
    "users": "* FROM given ORDER BY user_id",
    "histories": f"u, y, times, {_DAY} AS day FROM given ORDER BY u, y",
    "pairs": "h, y, coalesce(g, 0)::FLOAT AS g, coalesce(b, 0)::FLOAT AS b "
    "FROM given FULL JOIN ease USING (h, y) ORDER BY h, y",
}


@dataclass(frozen=True)
class ModelFile:
    """What was written. model: the version."""

    model: str
    people: int
    items: int


def write_model_file(settings: Settings, path: Path) -> ModelFile:
    """Write the model in use to a new file, whole or not at all."""
    check_path(path, settings)
    served, rules = ModelRegistry(settings.models_dir).champion(), Rules.of(settings)
    ranking = served.model.pair_ranking
    if ranking is None or ranking.days is None:
        raise NotExported(
            f"the model {served.manifest.version} ranks by its components alone, or without days; "
            'a file holds the ranking "three-moment" of dated logs'
        )
    excluding = served.model.excluding(rules.left_out, served.item_ids)
    tables = {
        "model": {
            "version": np.array([served.manifest.version], dtype=object),
            "day": np.array([served.manifest.day], dtype=object),
            "number": np.array([ranking.score.newest]),
            "exclude_seen": np.array([rules.exclude_seen]),
        },
        "items": _items(served, ranking)
        | {
            "name": np.array([rules.catalogue.name(str(y)) for y in served.item_ids], dtype=object),
            "candidate": excluding.candidates,
        },
        "users": _users(served, ranking),
        "histories": _entries(served.histories, "u", "times") | {"number": served.last_days.data},
        "pairs": _entries(ranking.counts.matrix(), "h", "g"),
    }
    with replacing(path) as temporary, duckdb.connect() as connection:
        quoted = str(temporary).replace("'", "''")
        connection.execute(f"ATTACH '{quoted}' AS file (STORAGE_VERSION '{_STORAGE}')")
        connection.execute("USE file")
        connection.register("ease", _entries(ranking.ease.matrix.entries, "h", "b"))
        for table, columns in tables.items():
            connection.register("given", columns)
            connection.execute(f"CREATE TABLE {table} AS SELECT {_TABLES[table]}")
            connection.unregister("given")
        connection.execute(load_sql("exports/model_file.sql"))
        connection.execute("USE memory")
        connection.execute("DETACH file")
    return ModelFile(served.manifest.version, len(served.user_ids), len(served.item_ids))


def _items(served: ServedModel, ranking: PairRanking) -> dict[str, Array]:
    """What is known of each item, and what it alone adds: at the mean length, and for each l_u."""
    score, weights = ranking.score, ranking.weights
    # Lengths of which l_u is 0 and 1.
    lengths = np.exp(weights.length_mean + weights.length_scale * np.arange(2))
    trend = [name for name in score.items if name != "users"]
    popularity, late = score.item_terms(["users"], lengths), score.item_terms(trend, lengths)
    return {
        "item_id": served.item_ids.astype(object),
        "y": np.arange(len(served.item_ids)),
        "users": ranking.pairs.item_users,
        "share": served.model.popularity,
        "rest": ranking.ease.rest,
        "popularity": popularity[0],
        "popularity_slope": popularity[1] - popularity[0],
        "trend": late[0],
        "trend_slope": late[1] - late[0],
    }


def _users(served: ServedModel, ranking: PairRanking) -> dict[str, Array]:
    """The standardised length of each history, and the coefficients that it gives."""
    length = ranking.weights.standardised(np.diff(served.histories.indptr))
    names = (*(part.name for part in ranking.score.parts), *OWN_FEATURES)
    return {
        "user_id": served.user_ids.astype(object),
        "u": np.arange(len(served.user_ids)),
        "length": length,
        **{name: ranking.weights.of(name, length) for name in names},
    }


def _entries(X: Csr, row: str, value: str) -> dict[str, Array]:
    return {row: owners(X), "y": X.indices, value: X.data}
