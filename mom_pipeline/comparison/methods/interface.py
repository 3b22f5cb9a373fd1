"""What a comparison knows of a method: settings to choose from, and a fit that scores items."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mom_pipeline.core.types import Array

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Fitted:
    """A fitted recommender."""

    scores: Callable[[Array], Array]  # users of the fit, (n,), to scores of all items, (n, D)
    # plain values to show beside the result, such as the iterations of EM
    notes: dict[str, Any] = field(default_factory=dict)


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
