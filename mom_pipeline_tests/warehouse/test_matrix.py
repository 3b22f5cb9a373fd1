"""State as of a day against a plain Python oracle: matrix and stable positions."""

import random
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from mom_pipeline.artifacts.scratch import new_array
from mom_pipeline.core.interactions import NewArray
from mom_pipeline.errors import WarehouseUnreadable
from mom_pipeline.settings import EngineSettings, MatrixSettings
from mom_pipeline.warehouse import matrix
from mom_pipeline.warehouse.matrix import (
    DayMatrix,
    extend_dictionaries,
    ids_by_position,
    matrix_as_of,
)
from mom_pipeline_tests.data_folder import DataFolder
from mom_pipeline_tests.mapped import is_mapped

FIRST = date(2024, 3, 1)
Event = tuple[date, date, str, str, str]  # delivery day, event day, user, item, weight
Rows = dict[str, dict[str, Fraction]]


def with_matrix(folder: DataFolder, **changes: int) -> DataFolder:
    folder.settings = folder.settings.model_copy(update={"matrix": MatrixSettings(**changes)})
    return folder


def as_of(folder: DataFolder, day: date, new_array: NewArray = np.empty) -> DayMatrix:
    """The matrix of a day, whose ids have their positions."""
    with folder.warehouse.connect() as connection:
        extend_dictionaries(connection, day)
    return matrix_as_of(folder.warehouse, day, new_array)


def random_events(rng: random.Random, n_days: int, per_day: int) -> list[Event]:
    """Events with repeats, late ones, and returns."""
    events = []
    for offset in range(n_days):
        day = FIRST + timedelta(days=offset)
        for _ in range(rng.randrange(per_day)):
            event_day = day - timedelta(days=rng.choice([0, 0, 0, 0, 1, 3]))
            user, item = f"u{rng.randrange(12)}", f"i{int(8 * rng.random() ** 2)}"
            events.append((day, event_day, user, item, rng.choice(["1", "0.1", "2.5", "-1"])))
    return events


def deliver(folder: DataFolder, events: list[Event]) -> None:
    folder.with_columns(weight="weight")
    by_day = defaultdict(list)
    for delivery, event_day, user, item, weight in events:
        by_day[delivery].append(f"{user},{item},{event_day}T23:30:00,{weight}\n")
    header = "user,item,timestamp,weight\n"
    folder.take_all((f"{day}.csv", header + "".join(lines)) for day, lines in by_day.items())


def oracle(events: list[Event], day: date, settings: MatrixSettings) -> Rows:
    """The filtered rows as of a day, by the definition, in exact arithmetic."""
    rows: Rows = defaultdict(lambda: defaultdict(Fraction))
    in_order = sorted(events, key=lambda event: (event[1], -Fraction(event[4])))
    for delivery, event_day, user, item, weight in in_order:
        expired = settings.window_days and event_day <= day - timedelta(days=settings.window_days)
        if delivery <= day and event_day <= day and not expired:
            # A return takes away what is there, and never more.
            rows[user][item] = max(rows[user][item] + Fraction(weight), Fraction(0))
    rows = {u: {i: w for i, w in row.items() if w} for u, row in rows.items()}
    support: dict[str, int] = defaultdict(int)
    for row in rows.values():
        for item in row:
            support[item] += 1
    kept = {
        user: {i: w for i, w in row.items() if support[i] >= settings.min_item_users}
        for user, row in rows.items()
    }
    return {u: row for u, row in kept.items() if len(row) >= max(settings.min_user_items, 1)}


def rows_of(folder: DataFolder, state: DayMatrix) -> Rows:
    with folder.warehouse.connect() as connection:
        users, items = ids_by_position(connection, "user"), ids_by_position(connection, "item")
    entries = state.interactions.tocoo()
    rows: Rows = defaultdict(dict)
    for u, i, weight in zip(*entries.coords, entries.data, strict=True):
        rows[users[u]][items[i]] = Fraction(round(weight * 1_000_000), 1_000_000)
    return dict(rows)


@pytest.mark.parametrize("seed", range(9))
def test_the_matrix_equals_the_oracle(
    folder: DataFolder, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(matrix, "_PAIRS_PER_BLOCK", (7, 50, matrix._PAIRS_PER_BLOCK)[seed % 3])
    settings = {
        "window_days": rng.choice([0, 1, 3]),
        "min_item_users": rng.choice([1, 2, 4]),
        "min_user_items": rng.choice([1, 2]),
    }
    with_matrix(folder, **settings).with_logs(timezone=rng.choice(["UTC", "Asia/Taipei"]))
    events = random_events(rng, n_days=6, per_day=45)
    deliver(folder, events)
    n_rows = 0
    for offset in (0, 2, 5):
        day = FIRST + timedelta(days=offset)
        expected = oracle(events, day, folder.settings.matrix)
        state = as_of(folder, day)
        assert rows_of(folder, state) == expected
        assert state.interactions.has_canonical_format
        n_rows += len(expected)
    assert n_rows > 0


def test_positions_are_stable_and_append_only(folder: DataFolder) -> None:
    with_matrix(folder, min_item_users=1)
    header = "user,item,timestamp\n"
    second = FIRST + timedelta(days=1)
    folder.take(f"{header}b,y,{FIRST}\na,x,{FIRST}\n", f"{FIRST}.csv")
    first_matrix = as_of(folder, FIRST)
    folder.take(f"{header}aa,w,{second}\n", f"{second}.csv")
    folder.take(f"{header}b,y,{FIRST}\na,x,{FIRST}\n0,0,{FIRST}\n", f"{FIRST}.csv")
    as_of(folder, second)
    with folder.warehouse.connect() as connection:
        assert list(ids_by_position(connection, "user")) == ["a", "b", "0", "aa"]
        assert list(ids_by_position(connection, "item")) == ["x", "y", "0", "w"]
    assert first_matrix.interactions.shape == (2, 2)
    assert as_of(folder, FIRST).interactions.shape == (3, 3)


def test_day_by_day_and_all_at_once_give_the_same_positions(new_folder) -> None:  # type: ignore[no-untyped-def]
    events = random_events(random.Random(7), 5, 10)
    by_day, at_once = (with_matrix(new_folder(n), min_item_users=1) for n in ("by_day", "once"))
    for offset in range(5):
        day = FIRST + timedelta(days=offset)
        deliver(by_day, [event for event in events if event[0] == day])
        as_of(by_day, day)
    deliver(at_once, random.Random(1).sample(events, len(events)))
    as_of(at_once, day)
    dump = "SELECT position, user_id, first_day FROM user_dictionary ORDER BY position"
    assert by_day.query(dump) == at_once.query(dump)


def test_weights_are_summed_exactly(folder: DataFolder) -> None:
    with_matrix(folder, min_item_users=1)
    deliver(folder, [(FIRST, FIRST, "u", "i", "0.1")] * 10)
    assert as_of(folder, FIRST).interactions[0, 0] == 1.0


def test_the_fingerprint_follows_the_deliveries(folder: DataFolder) -> None:
    deliver(folder, random_events(random.Random(1), 3, 10))
    one = as_of(folder, FIRST).fingerprint
    assert as_of(folder, FIRST).fingerprint == one
    folder.take("user,item,timestamp,weight\n", "2024-03-09.csv")
    assert as_of(folder, FIRST).fingerprint == one  # a later day
    folder.take("user,item,timestamp,weight\n", f"{FIRST}.more.csv")
    two = as_of(folder, FIRST).fingerprint
    folder.query(f"INSERT INTO excluded_days VALUES ('{FIRST}', 'odd')")
    assert len({one, two, as_of(folder, FIRST).fingerprint}) == 3


def test_rows_in_files_do_not_pass_through_memory_all_at_once(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, items = np.divmod(np.arange(60_000), 20)
    lines = [
        f"u{user},i{7 * user % 99 + item},{FIRST}T10:00:00\n"
        for user, item in zip(users, items, strict=True)
    ]
    folder.take("user,item,timestamp\n" + "".join(lines))
    on_dask = folder.settings.model_copy(update={"engine": EngineSettings(kind="dask")})
    monkeypatch.setattr(matrix, "_PAIRS_PER_BLOCK", 1_000)
    in_memory, peak = traced(lambda: as_of(folder, FIRST))
    in_files, low = traced(lambda: as_of(folder, FIRST, partial(new_array, on_dask)))
    n_bytes = sum(a.nbytes for a in (in_memory.interactions.data, in_memory.interactions.indices))
    assert in_memory.interactions.nnz == 60_000
    assert peak > n_bytes
    assert low < n_bytes / 3
    for ours, theirs in (
        (in_files.interactions, in_memory.interactions),
        (in_files.last_days, in_memory.last_days),
    ):
        assert is_mapped(ours.data)
        assert is_mapped(ours.indices)
        np.testing.assert_array_equal(ours.data, theirs.data)
        np.testing.assert_array_equal(ours.indices, theirs.indices)
        np.testing.assert_array_equal(ours.indptr, theirs.indptr)


def traced(work: Callable[[], DayMatrix]) -> tuple[DayMatrix, int]:
    """The result of some work, and the bytes that it had in memory at most."""
    work()
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_empty_state_is_an_empty_matrix_and_none_says_what_to_do(folder: DataFolder) -> None:
    with pytest.raises(WarehouseUnreadable, match="mom-pipeline update"):
        matrix_as_of(folder.warehouse, FIRST)
    folder.take("user,item,timestamp\n")
    assert as_of(folder, FIRST).interactions.shape == (0, 0)


@pytest.mark.parametrize("seed", range(2))
def test_any_order_of_arrival_gives_the_same_state(new_folder, seed: int) -> None:  # type: ignore[no-untyped-def]
    """Positions may differ, because yesterday's stay valid; who has what may not."""
    rng = random.Random(seed)
    events = random_events(rng, n_days=5, per_day=25)
    last = FIRST + timedelta(days=4)
    days = sorted({event[0] for event in events})
    folders = [with_matrix(new_folder(name), min_item_users=2) for name in ("order", "shuffled")]
    for folder, order in zip(folders, (days, rng.sample(days, len(days))), strict=True):
        for day in order:
            deliver(folder, [event for event in events if event[0] == day])
            as_of(folder, last)
    states = [rows_of(folder, as_of(folder, last)) for folder in folders]
    assert states[0] == states[1]
    assert states[0]


def test_a_late_delivery_can_bring_an_id_to_an_earlier_day(folder: DataFolder) -> None:
    with_matrix(folder, min_item_users=1)
    folder.take("user,item,timestamp\na,x,2024-03-01T10:00:00\n", "2024-03-01.csv")
    folder.take("user,item,timestamp\nb,y,2024-03-02T10:00:00\n", "2024-03-02.csv")
    assert as_of(folder, FIRST + timedelta(days=1)).interactions.shape == (2, 2)
    late = "user,item,timestamp\na,x,2024-03-01T10:00:00\nb,y,2024-03-01T11:00:00\n"
    folder.take(late, "2024-03-01.csv")
    state = as_of(folder, FIRST).interactions
    assert state.toarray().tolist() == [[1, 0], [0, 1]]
