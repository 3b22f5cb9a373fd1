"""Training, validation and test data of a comparison: by time, or from a ready split."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.results import ComparisonError, DataDescription
from mom_pipeline.core.interactions import as_binary, resized, with_narrow_indices
from mom_pipeline.core.ranking.learning import Window, enough
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.datasets.published import read_split
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import delivered_pairs, extend_dictionaries, matrix_as_of

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class TrainTest:
    """Training and test data for all methods, with positions of their own."""

    train: Csr  # (N, D) no row or column empty
    users: Array  # positions in `train` of those that lists are made for, ascending
    test: Csr  # (users, D + unknown) 1 where relevant, no row empty; unknown items come last
    n_newcomers: int = 0  # test users without a history
    n_dropped: int = 0  # test users with a history and no relevant item
    last_days: Csr | None = None  # (N, D) the day of every last interaction, where days are known

    @property
    def n_unknown(self) -> int:
        """How many of the relevant interactions lie outside of the catalogue."""
        return int((self.test.indices >= self.train.shape[1]).sum())

    def test_in_catalogue(self) -> Csr:
        """Return the relevant interactions inside the catalogue, rows and columns as in `train`."""
        known = self.test[:, : self.train.shape[1]].tocoo()
        entries = (known.data, (self.users[known.row], known.col))
        return with_narrow_indices(sparse.csr_array(entries, shape=self.train.shape))

    def sample(self, n_users: int, rng: np.random.Generator) -> "TrainTest":
        """Return the same with at most n_users of the users; `train` stays whole."""
        if len(self.users) <= n_users:
            return self
        chosen = np.sort(rng.choice(len(self.users), size=n_users, replace=False))
        return replace(self, users=self.users[chosen], test=self.test[chosen])


def make_trial(
    train: Csr, test: Csr, *, exclude_seen: bool = True, last_days: Csr | None = None
) -> TrainTest:
    """Lists for every user of `test` with a history in `train`, over the same dictionaries."""
    shape = _common_shape(train, test)
    train, test = resized(train, shape), resized(test, shape).astype(bool)
    with_history = np.flatnonzero(np.diff(train.indptr))
    came = np.diff(test.indptr) > 0
    wanted = test[with_history]
    if exclude_seen:
        wanted = sparse.csr_array(wanted > train[with_history].astype(bool))
    users = np.flatnonzero(np.diff(wanted.indptr))
    relevant = wanted[users].astype(np.float64)
    known = np.unique(train.indices)
    unknown = np.setdiff1d(relevant.indices, known)
    days = None if last_days is None else resized(last_days, shape)[with_history]
    return TrainTest(
        train=_columns(train[with_history], known),
        users=users,
        test=_columns(relevant, np.concatenate([known, unknown])),
        n_newcomers=int(came.sum() - came[with_history].sum()),
        n_dropped=int(came[with_history].sum()) - len(users),
        last_days=None if days is None else _columns(days, known),
    )


def _columns(X: Csr, columns: Array) -> Csr:
    """Return X with these columns in this order."""
    moved = X[:, columns]
    moved.sort_indices()
    return with_narrow_indices(moved)


def _common_shape(one: Csr, other: Csr) -> tuple[int, int]:
    return max(one.shape[0], other.shape[0]), max(one.shape[1], other.shape[1])


@dataclass(frozen=True)
class Split:
    """The data of a comparison; ComparisonError where there is nothing to find."""

    data: DataDescription
    period: str  # how it was made, in words
    final: TrainTest
    windows: tuple[TrainTest, ...] = ()  # of training data, to choose settings on, the newest first
    exclude_seen: bool = True
    day: date | None = None  # the last test day; None for a ready split
    is_later: bool = False  # the windows are of later days, not of items hidden at random

    def __post_init__(self) -> None:
        final, words = self.final, self.period.partition(";")[0]
        if self.data.test_tuples == 0:
            raise ComparisonError(
                f"no test items: nobody took anything in the test data ({words}); "
                "use a longer test period, or another file"
            )
        if len(final.users) == 0:
            raise ComparisonError(
                f"no test item is relevant: of the test users {final.n_newcomers:,} have no "
                f"history and {final.n_dropped:,} took nothing new ({words}); use a longer test "
                "period, or --include-seen where people take things again"
            )

    def untuned(self, max_users: int) -> "Split":
        """Return the same with at most so many users, and nothing chosen on it."""
        final = self.final.sample(max_users, np.random.default_rng(0))
        period = f"{self.period.partition(';')[0]}; default settings"
        return replace(self, final=final, windows=(), is_later=False, period=period)


def split_by_time(
    warehouse: Warehouse,
    train_until: date,
    test_until: date | None = None,
    *,
    exclude_seen: bool = True,
    name: str = "",
) -> Split:
    """Train on filtered deliveries up to a day, test on all the later ones (paper, section 4)."""
    days = _days_with_positions(warehouse)
    first, last = days[0], days[-1]
    _check_days(first, last, train_until, test_until or last)
    test_until = min(test_until or last, last)

    def trial(until: date, tested_until: date) -> tuple[Csr, Csr, TrainTest]:
        X, test = matrix_as_of(warehouse, until), delivered_pairs(warehouse, until, tested_until)
        final = make_trial(X.interactions, test, exclude_seen=exclude_seen, last_days=X.last_days)
        return X.interactions, test, final

    train, test, final = trial(train_until, test_until)
    if train.nnz == 0:
        raise ComparisonError(
            f"no interaction is left to train on up to {train_until}; train until a later day, "
            "or lower matrix.min_item_users and matrix.min_user_items"
        )
    words = f"train {first} to {train_until}, test {train_until + _DAY} to {test_until}"
    start = validation_start(first, train_until, test_until)
    windows: tuple[TrainTest, ...] = ()
    chosen = f"; settings chosen on {start} to {train_until}"
    if start is not None:
        length = train_until - start + _DAY
        end = start - _DAY
        while end >= first and not enough([(len(own.users), own.train.nnz) for own in windows]):
            windows = (*windows, trial(end, end + length)[2])
            end -= length
    is_later = len(windows) > 0 and len(windows[0].users) > 0
    if not is_later:
        windows, chosen = _hidden_fifth(train, exclude_seen)
    data = _description(name or str(train_until), "daily logs", final, test)
    return Split(data, words + chosen, final, windows, exclude_seen, test_until, is_later)


def split_of_files(train_file: Path, test_file: Path, *, exclude_seen: bool = True) -> Split:
    """Take a ready split, one line per user; a fifth of each user's training is validation."""
    train, test = read_split(train_file, test_file)
    if train.nnz == 0:
        raise ComparisonError(f"{train_file} has users but no items; there is nothing to train on")
    windows, chosen = _hidden_fifth(train, exclude_seen)
    words = f"train {train_file.name}, test {test_file.name}{chosen}"
    final = make_trial(train, test, exclude_seen=exclude_seen)
    data = _description(train_file.resolve().parent.name, "ready split", final, test)
    return Split(data, words, final, windows, exclude_seen)


def split_by_days(warehouse: Warehouse, train_days: Collection[date], *, name: str) -> Split:
    """Train on some days and test on all others, as the paper divides the months of Ta-Feng."""
    days = _days_with_positions(warehouse)
    trained = [day for day in days if day in train_days]
    if not trained:
        raise ComparisonError(
            f"none of the {len(train_days)} training days has events in {warehouse.path}; "
            "import the dataset again, or choose a last training day"
        )
    train = _delivered_on(warehouse, trained)
    test = _delivered_on(warehouse, (day for day in days if day not in train_days))
    windows, chosen = _hidden_fifth(train, True)
    n = len(trained)
    words = f"train {n} days of the dataset, test the other {len(days) - n}{chosen}"
    final = make_trial(train, test)
    return Split(_description(name, "daily logs", final, test), words, final, windows)


def _delivered_on(warehouse: Warehouse, days: Iterable[date]) -> Csr:
    """Return 1 for every interaction of any of the days."""
    delivered = sparse.csr_array((1, 1))
    for day in days:
        more = delivered_pairs(warehouse, day - _DAY, day)
        shape = _common_shape(delivered, more)
        delivered = sparse.csr_array(resized(delivered, shape) + resized(more, shape))
    return as_binary(delivered)


def split_of_matrices(train: Csr, test: Csr, *, name: str, kind: str, words: str) -> Split:
    """Take two matrices of the same users and items; settings are the defaults."""
    final = make_trial(train, test)
    return Split(_description(name, kind, final, test), words, final)


def validation_start(first: date, train_until: date, test_until: date) -> date | None:
    """First day of validation, as large a share of training as the test of all; None: too short."""
    train_days = (train_until - first).days + 1
    test_days = (test_until - train_until).days
    n_days = max(1, round(train_days * test_days / (train_days + test_days)))
    return train_until - timedelta(days=n_days - 1) if n_days < train_days else None


def _days_with_positions(warehouse: Warehouse) -> list[date]:
    """Return the days with events, all of whose ids then have positions."""
    with warehouse.reading() as connection:
        days = delivery_days(connection)
    if not days:
        raise ComparisonError(
            f"{warehouse.path} holds no events yet; put log files such as 2024-03-01.csv into "
            f"{warehouse.settings.logs_dir}"
        )
    with warehouse.connect() as connection:
        extend_dictionaries(connection, days[-1])
    return days


def _check_days(first: date, last: date, train_until: date, test_until: date) -> None:
    faults = {
        f"training would end on {train_until}, before the first day with events, {first}; "
        "choose a later day": train_until < first,
        f"training would end on {train_until}, and no events were delivered after that (the "
        f"last are of {last}); choose an earlier day": train_until >= last,
        f"the test would end on {test_until}, which is not after the training's last day, "
        f"{train_until}; choose a later day": test_until <= train_until,
    }
    for fault, holds in faults.items():
        if holds:
            raise ComparisonError(fault)


def _hidden_fifth(train: Csr, exclude_seen: bool) -> tuple[tuple[TrainTest, ...], str]:
    """Hide a fifth of each user's items; returns the window, and how it was made in words."""
    held_out = Window.hiding(train, np.random.default_rng(0))
    if held_out is None:
        return (), "; default settings, as no user has two items to choose on"
    trial = make_trial(held_out.X, held_out.later, exclude_seen=exclude_seen)
    return (trial,), "; settings chosen on a fifth of everybody's training items"


def _description(name: str, kind: str, final: TrainTest, test: Csr) -> DataDescription:
    return DataDescription(name, *final.train.shape, final.train.nnz, test.nnz, kind)
