"""What a comparison knows of a method: settings to choose from, and a fit that scores items."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.ranking.topn import Scorer
from mom_pipeline.core.types import Array, Csr

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Fitted:
    """A fitted recommender.

    scores: a block of users' histories, (users, D) sparse, to scores of all items, (users, D).
    notes: plain values worth showing beside the result, such as the iterations of EM.
    histories: (N, D) what `scores` is given of the users, where that is not the training data.
    """

    scores: Scorer
    notes: dict[str, Any] = field(default_factory=dict)
    histories: Csr | None = None


@dataclass(frozen=True)
class Method:
    """One recommender under a name.

    name: as typed on a command line.  title: as printed in a table.
    fit: (interactions (N, D), seed, **settings) to a fitted recommender.
    grid: settings to choose from on validation data; the first is the default.
    size: name of the setting for K, the components or factors; empty for a method without.
    takes: what `fit` is given besides, of "last_days", (N, D) the day of every last interaction or
        None where no day is known, and "exclude_seen", whether lists hold new items alone.
    choose: (windows of later days, the newest first, seed, exclude_seen, **settings) to settings
        with all that the method learns by itself; None for a method with nothing beyond its grid.
    """

    name: str
    title: str
    fit: Callable[..., Fitted]
    grid: tuple[Settings, ...] = ({},)
    size: str = ""
    takes: tuple[str, ...] = ()
    choose: Callable[..., Settings] | None = None


class TooLarge(MomError):
    """The data needs more memory than the method may use."""


def numbered(X: Csr) -> Csr:
    """Return histories that hold the number of their user, for methods that know users alone."""
    histories = X.astype(np.float64)
    histories.data[:] = np.repeat(np.arange(1, X.shape[0] + 1), np.diff(X.indptr))
    return histories


def numbers_of(histories: Csr) -> Array:
    """Return the positions of the users whose histories `numbered` made, none of them empty."""
    return histories.data[histories.indptr[:-1]].astype(np.int64) - 1
