"""The table `recommendations`, of which a day replaces its own rows, and its export."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.files import replacing
from mom_pipeline.core.ranking.explain import COMPONENT, ITEM, ReasonedLists
from mom_pipeline.core.types import Array
from mom_pipeline.core.visits import UserLists
from mom_pipeline.warehouse.connection import Connection, load_sql, scalar

# Digits of a stored score: the rank says the order, and these take half of the room.
_DIGITS = 5


@dataclass(frozen=True)
class StoredLists:
    """What was stored. contents: a hash.  n_newcomers: users without a history."""

    rows: int
    n_newcomers: int
    contents: str


def replace_lists(
    connection: Connection, day: date, model: str, parts: Iterable[UserLists]
) -> StoredLists:
    """Store the lists that a day made, in place of those that it made before.

    A part at a time, all in the transaction of the connection; a user who was erased gets none.
    """
    connection.execute(
        "DELETE FROM recommendations WHERE day = $day::DATE", {"day": day.isoformat()}
    )
    n_rows, n_newcomers, contents = 0, 0, hashlib.sha256()
    for part in parts:
        n_rows += _insert(connection, day, model, part.users, part.lists)
        n_newcomers += part.n_newcomers
        contents.update(part.lists.items.tobytes())
        contents.update(part.lists.scores.tobytes())
    return StoredLists(n_rows, n_newcomers, contents.hexdigest())


def _insert(
    connection: Connection, day: date, model: str, users: Array, lists: ReasonedLists
) -> int:
    owners, ranks = np.nonzero(lists.items >= 0)
    rows = {
        "user_position": users[owners],
        "rank": ranks + 1,
        "item_position": lists.items[owners, ranks],
        "score": _rounded(lists.scores[owners, ranks]),
        "kind": lists.kinds[owners, ranks],
        "cause": lists.causes[owners, ranks],
    }
    connection.register("new_lists", rows)
    inserted = scalar(
        connection,
        load_sql("warehouse/insert_lists.sql"),
        {"day": day.isoformat(), "model": model, "component": COMPONENT, "item": ITEM},
    )
    connection.unregister("new_lists")
    return inserted


def _rounded(scores: Array) -> Array:
    """Return numbers of a few significant digits."""
    sizes = np.abs(scores, dtype=np.float64)
    exponents = np.floor(np.log10(sizes, out=np.zeros_like(sizes), where=sizes > 0))
    unit = 10.0 ** (_DIGITS - 1 - exponents)
    return np.asarray(np.rint(scores * unit) / unit)


def export_lists(connection: Connection, day: date, folder: Path, catalogue: Catalogue) -> Path:
    """Write every user's list as of a day to `<folder>/<day>.parquet`, whole or not at all.

    With the names of the items, "" where there is none.
    """
    names = [[entry.item, entry.name] for entry in catalogue.items.values()]
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE item_names AS SELECT unnest($ids::VARCHAR[]) AS item_id, "
        "unnest($names::VARCHAR[]) AS item_name",
        {"ids": [item for item, _ in names], "names": [name for _, name in names]},
    )
    path = folder / f"{day.isoformat()}.parquet"
    with replacing(path) as temporary:
        lists = connection.sql(
            load_sql("warehouse/lists_as_of.sql"), params={"day": day.isoformat()}
        )
        lists.write_parquet(str(temporary), compression="zstd")
    return path


def most_listed(connection: Connection, day: date, n: int) -> list[dict[str, Any]]:
    """Return the items that are in most lists of a day, and in how many; no user is named."""
    rows = connection.execute(
        "SELECT item_id, count(*) FROM recommendations WHERE day = $day::DATE "
        "GROUP BY item_id ORDER BY count(*) DESC, item_id LIMIT $n",
        {"day": day.isoformat(), "n": n},
    ).fetchall()
    return [{"item": item, "lists": count} for item, count in rows]


def remove_exports(folder: Path, before: date) -> int:
    """Remove the exports of the days before a day. Returns how many there were."""
    old = [path for path in folder.glob("*.parquet") if path.stem < before.isoformat()]
    for path in old:
        path.unlink()
    return len(old)


def remove_superseded(connection: Connection, oldest: date) -> int:
    """Remove the lists that no day from `oldest` on can see. Returns the rows removed.

    A user who was not visited on `oldest` keeps the newest list before it: it is still in use.
    """
    return scalar(
        connection,
        "DELETE FROM recommendations AS lists WHERE day < "
        "(SELECT max(day) FROM recommendations AS newer "
        "WHERE newer.user_id = lists.user_id AND newer.day <= $oldest::DATE)",
        {"oldest": oldest.isoformat()},
    )


def list_of(connection: Connection, user_id: str, day: date) -> list[tuple[int, str, float]]:
    """Rank, item and score of a user's list as of a day."""
    return connection.execute(
        "SELECT rank, item_id, score FROM recommendations WHERE user_id = $user AND day = "
        "(SELECT max(day) FROM recommendations WHERE user_id = $user AND day <= $day::DATE) "
        "ORDER BY rank",
        {"user": user_id, "day": day.isoformat()},
    ).fetchall()


def lists_of(connection: Connection, users: Sequence[str], day: date) -> dict[str, list[str]]:
    """The items of the lists of some users as of a day, the best first; no entry for no list."""
    rows = connection.execute(
        "SELECT user_id, list(item_id ORDER BY rank) FROM recommendations "
        "WHERE user_id IN (SELECT unnest($users::VARCHAR[])) AND day <= $day::DATE "
        "GROUP BY user_id, day QUALIFY day = max(day) OVER (PARTITION BY user_id)",
        {"users": list(users), "day": day.isoformat()},
    ).fetchall()
    return dict(rows)


def listed_items(connection: Connection, day: date) -> int:
    """How many different items the lists that a day made hold."""
    return scalar(
        connection,
        "SELECT count(DISTINCT item_id) FROM recommendations WHERE day = $day::DATE",
        {"day": day.isoformat()},
    )


def sample_users(connection: Connection, day: date, n: int) -> list[str]:
    """Some users with a list as of a day: those of the most events, then by id."""
    rows = connection.execute(
        "SELECT user_id FROM raw_logs "
        "SEMI JOIN (FROM recommendations WHERE day <= $day::DATE) USING (user_id) "
        "WHERE delivery_day <= $day::DATE "
        "GROUP BY user_id ORDER BY count(*) DESC, user_id LIMIT $n",
        {"day": day.isoformat(), "n": n},
    ).fetchall()
    return [user for (user,) in rows]


def latest_items(connection: Connection, user_id: str, day: date, n: int) -> list[str]:
    """What a user took last, the newest first."""
    rows = connection.execute(
        "SELECT item_id FROM raw_logs WHERE user_id = $user AND delivery_day <= $day::DATE "
        "GROUP BY item_id ORDER BY max(event_time) DESC, item_id LIMIT $n",
        {"user": user_id, "day": day.isoformat(), "n": n},
    ).fetchall()
    return [item for (item,) in rows]


def typical_users(connection: Connection, day: date, n: int) -> list[str]:
    """Some users who took something and have a list as of a day, the same ones every time."""
    rows = connection.execute(
        "SELECT DISTINCT user_id, md5(user_id) AS mixed FROM raw_logs "
        "SEMI JOIN (FROM recommendations WHERE day <= $day::DATE) USING (user_id) "
        "WHERE delivery_day <= $day::DATE ORDER BY mixed LIMIT $n",
        {"day": day.isoformat(), "n": n},
    ).fetchall()
    return [user for user, _ in rows]


def listed_counts(connection: Connection, day: date) -> tuple[Array, Array]:
    """The positions of the items in any user's list as of a day, and in how many each is."""
    rows = connection.execute(
        load_sql("warehouse/listed_counts.sql"), {"day": day.isoformat()}
    ).fetchnumpy()
    return np.asarray(rows["position"]), np.asarray(rows["lists"])
