"""What a recommender is to a comparison: settings to choose from, and a fit that can score."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mom_pipeline.core.ranking.topn import Scorer
from mom_pipeline.core.types import Csr

Setting = int | float | str
Settings = Mapping[str, Setting]


@dataclass(frozen=True)
class Fitted:
    """A fitted recommender.

    scores: a block of users' histories, (users, D) sparse, to scores of all items, (users, D).
    notes: plain values worth showing beside the result, such as the iterations of EM.
    """

    scores: Scorer
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """One recommender under a name.

    name: as typed on a command line.  title: as printed in a table.
    fit: (interactions (N, D), settings, seed) to a fitted recommender.
    grid: settings to choose from on validation data; the first is the default.
    size: name of the setting for K, the classes or factors; empty for a method without.
    lists: name of the setting for what lists hold, "new" or "all" items; empty for a method
        that does not choose anything by it.
    choose: (interactions, what the same users took later, settings, seed) to settings with all
        that the method chooses by itself; None for a method that the grid is all of.
    """

    name: str
    title: str
    fit: Callable[[Csr, Settings, int], Fitted]
    grid: tuple[Settings, ...] = ({},)
    size: str = ""
    lists: str = ""
    choose: Callable[[Csr, Csr, Settings, int], Settings] | None = None
