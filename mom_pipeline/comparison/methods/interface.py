"""What a comparison knows of a method: settings to choose from, and a fit that scores items."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.ranking.topn import Scorer
from mom_pipeline.core.types import Csr

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
    lists: name of the setting for what lists hold, "new" or "all" items, where it matters.
    choose: (windows of later days, the newest first, seed, **settings) to settings with all that
        the method learns by itself; None for a method with nothing beyond its grid.
    reads_days: `fit` takes `last_days` as well, (N, D) the day of every last interaction, or None
        where no day is known.
    """

    name: str
    title: str
    fit: Callable[..., Fitted]
    grid: tuple[Settings, ...] = ({},)
    size: str = ""
    lists: str = ""
    choose: Callable[..., Settings] | None = None
    reads_days: bool = False


class TooLarge(MomError):
    """The data needs more memory than the method may use."""


class MissingLibrary(MomError):
    """A library that only this method needs is not installed."""
