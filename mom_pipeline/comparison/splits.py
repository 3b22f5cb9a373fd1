"""Training, validation and test data of a comparison: by time, or from a ready split."""

from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from mom_pipeline.comparison.errors import ComparisonError
from mom_pipeline.comparison.results import DataDescription
from mom_pipeline.comparison.trials import Trial, make_trial
from mom_pipeline.core.ranking.choose import hold_out
from mom_pipeline.core.types import Csr
from mom_pipeline.datasets.user_lists import read_split
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.evaluations import delivered_pairs
from mom_pipeline.warehouse.matrix import matrix_as_of


@dataclass(frozen=True)
class Split:
    """The data of a comparison.

    final: fitted on all training data, measured on the test data.
    validation: made of training data alone, to choose settings on; None when there is too little.
    validation_is_later: it asks about later days, not about items hidden at random.
    period: how it was made, in words.  day: the last test day; None for a ready split.
    """

    data: DataDescription
    period: str
    final: Trial
    validation: Trial | None
    exclude_seen: bool
    day: date | None = None
    validation_is_later: bool = False


def split_by_time(
    warehouse: Warehouse,
    train_until: date,
    test_until: date | None = None,
    *,
    exclude_seen: bool = True,
    name: str = "",
    seed: int = 0,
) -> Split:
    """Train on the deliveries up to a day, test on the later ones (paper, section 4).

    The test ends with the last day that has events, also when a later one is given.
    Training data pass the filters and the window of the pipeline; test data pass none.
    Validation is to the training days as the test is to all days: the last of them.
    """
    first, last = _ends(warehouse)
    _check_days(first, last, train_until, test_until or last)
    test_until = min(test_until or last, last)
    train = matrix_as_of(warehouse, train_until).interactions
    test = delivered_pairs(warehouse, train_until, test_until)
    if train.nnz == 0:
        raise ComparisonError(
            f"no pair of a user and an item is left to train on up to {train_until}; train until "
            "a later day, or lower matrix.min_item_users and matrix.min_user_items"
        )
    validation_from = validation_start(first, train_until, test_until)
    validation = None
    if validation_from is not None:
        earlier = validation_from - timedelta(days=1)
        validation = make_trial(
            matrix_as_of(warehouse, earlier).interactions,
            delivered_pairs(warehouse, earlier, train_until),
            exclude_seen=exclude_seen,
        )
    words = (
        f"train {first} to {train_until}, test {train_until + timedelta(days=1)} to {test_until}"
    )
    is_later = validation is not None and len(validation.users) > 0
    if is_later:
        words += f"; settings chosen on {validation_from} to {train_until}"
    else:
        validation, chosen = _hidden_fifth(train, exclude_seen, seed)
        words += chosen
    name = name or f"{train_until}"
    split = _split(name, "daily logs", words, train, test, validation, exclude_seen)
    return replace(split, day=test_until, validation_is_later=is_later)


def split_of_files(
    train_file: Path,
    test_file: Path,
    *,
    exclude_seen: bool = True,
    name: str = "",
    seed: int = 0,
) -> Split:
    """Take a ready split, one line per user; a fifth of everybody's training is validation."""
    train, test = read_split(train_file, test_file)
    if train.nnz == 0:
        raise ComparisonError(f"{train_file} has users but no items; there is nothing to train on")
    validation, chosen = _hidden_fifth(train, exclude_seen, seed)
    words = f"train {train_file.name}, test {test_file.name}{chosen}"
    name = name or train_file.resolve().parent.name
    return _split(name, "ready split", words, train, test, validation, exclude_seen)


def validation_start(first: date, train_until: date, test_until: date) -> date | None:
    """Return the first day of validation, or None when one training day cannot be divided.

    Its share of the training days is that of the test days in all days, at least a day.
    """
    train_days = (train_until - first).days + 1
    test_days = (test_until - train_until).days
    n_days = max(1, round(train_days * test_days / (train_days + test_days)))
    return train_until - timedelta(days=n_days - 1) if n_days < train_days else None


def _ends(warehouse: Warehouse) -> tuple[date, date]:
    with warehouse.reading() as connection:
        days = delivery_days(connection)
    if not days:
        raise ComparisonError(
            f"{warehouse.path} holds no events yet; run `mom-pipeline ingest` first"
        )
    return days[0], days[-1]


def _check_days(first: date, last: date, train_until: date, test_until: date) -> None:
    if train_until < first:
        raise ComparisonError(
            f"training would end on {train_until}, before the first day with events, {first}; "
            "choose a later day"
        )
    if train_until >= last:
        raise ComparisonError(
            f"training would end on {train_until}, and no events were delivered after that (the "
            f"last are of {last}); choose an earlier day"
        )
    if test_until <= train_until:
        raise ComparisonError(
            f"the test would end on {test_until}, which is not after the training's last day, "
            f"{train_until}; choose a later day"
        )


def _hidden_fifth(train: Csr, exclude_seen: bool, seed: int) -> tuple[Trial | None, str]:
    """Hide a fifth of everybody's items; returns the trial and what to say about it."""
    held_out = hold_out(train, np.random.default_rng(seed), max_users=train.shape[0])
    if held_out is None:
        return None, "; default settings, as no user has two items to choose on"
    hidden = train - held_out.train
    trial = make_trial(held_out.train, hidden, exclude_seen=exclude_seen)
    return trial, "; settings chosen on a fifth of everybody's training items"


def _split(
    name: str,
    kind: str,
    words: str,
    train: Csr,
    test: Csr,
    validation: Trial | None,
    exclude_seen: bool,
) -> Split:
    if test.nnz == 0:
        raise ComparisonError(
            f"no test items: nobody took anything in the test data ({words}); "
            "use a longer test period, or another file"
        )
    final = make_trial(train, test, exclude_seen=exclude_seen)
    if len(final.users) == 0:
        raise ComparisonError(
            f"no test items are to be found: of the test users {final.n_newcomers:,} have no "
            f"history and {final.n_dropped:,} took nothing new ({words}); use a longer test "
            "period, or --include-seen where people take things again"
        )
    if validation is not None and len(validation.users) == 0:
        validation = None
    N, D = final.train.shape
    sparsity = 100 * (1 - final.train.nnz / (N * D))
    data = DataDescription(name, N, D, final.train.nnz, test.nnz, sparsity, kind)
    return Split(data, words, final, validation, exclude_seen)
