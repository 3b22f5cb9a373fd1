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
    """A fitted recommender."""

    scores: Scorer  # histories, (users, D) sparse, to scores of all items, (users, D)
    # plain values to show beside the result, such as the iterations of EM
    notes: dict[str, Any] = field(default_factory=dict)
    histories: Csr | None = None  # (N, D) what `scores` takes, where that is not the training data


@dataclass(frozen=True)
class Method:
    """One recommender: its name on the command line and its title in a table."""

    name: str
    title: str
    fit: Callable[..., Fitted]  # (interactions (N, D), seed, **settings) to a fitted recommender
    # to choose from on validation data; the first is the default
    grid: tuple[Settings, ...] = ({},)
    size: str = ""  # name of the setting for K, if any
    # what `fit` is given besides: "last_days" (N, D) or None, "exclude_seen"
    takes: tuple[str, ...] = ()
    # (windows of later days, the newest first, seed, exclude_seen, **settings) to settings
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
