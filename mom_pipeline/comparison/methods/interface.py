"""The interface of a compared method: settings to choose from, and a fit that scores items."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting, MomError
from mom_pipeline.core.ranking.topn import Scorer
from mom_pipeline.core.types import Csr

Setting = int | float | str
Settings = Mapping[str, Setting]

VALUES = ("binary", "counts", "log")


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
    fit: (interactions (N, D), settings, seed) to a fitted recommender.
    grid: settings to choose from on validation data; the first is the default.
    size: name of the setting for K, the components or factors; empty for a method without.
    lists: name of the setting for what lists hold, "new" or "all" items; empty for a method
        that chooses nothing by it.
    choose: (interactions, what the same users took later, settings, seed) to settings with all
        that the method chooses by itself; None for a method with nothing beyond its grid.
    reads_days: `fit` and `choose` take `last_days` as well, (N, D) the day of every pair's last
        event, or None where no day is known.
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
    """The data needs more memory than the method may take."""


class MissingLibrary(MomError):
    """A library that only this method needs is not installed."""


def filled(settings: Settings, defaults: Settings) -> dict[str, Setting]:
    """Return the defaults with the given settings in their place.

    Raises InvalidSetting for a name that the method does not know, and for a number where a
    word belongs or the other way round.
    """
    unknown = sorted(set(settings) - set(defaults))
    if unknown:
        raise InvalidSetting(
            f"expected settings among {', '.join(sorted(defaults)) or 'none at all'}, "
            f"found {', '.join(unknown)}; drop or rename them"
        )
    for name, value in settings.items():
        if isinstance(value, str) != isinstance(defaults[name], str):
            raise InvalidSetting(
                f"{name} must be of the kind of {defaults[name]!r}, its default, found {value!r}"
            )
    return {**defaults, **settings}


def in_range(name: str, value: Setting, low: float, *, above: bool = False) -> float:
    """Return the number, or raise InvalidSetting when it is below `low` (or at it: `above`)."""
    number = float(value)
    if not np.isfinite(number) or number < low or (above and number == low):
        raise InvalidSetting(
            f"{name} must be {'above' if above else 'at least'} {low:g}, found {value}"
        )
    return number


def whole(name: str, value: Setting, low: int = 1) -> int:
    """Return the whole number, or raise InvalidSetting when it is none or below `low`."""
    number = in_range(name, value, low)
    if number != int(number):
        raise InvalidSetting(f"{name} must be a whole number, found {value}")
    return int(number)


def weighted(X: Csr, values: Setting) -> Csr:
    """Return the counts as the method is to see them: as float64, the positions shared with X.

    values: "binary", taken or not; "counts", as they are; "log", log2(1 + count): 1 for one.
    """
    if values not in VALUES:
        raise InvalidSetting(f"values must be one of {', '.join(VALUES)}, found {values!r}")
    data = X.data.astype(np.float64)
    if values == "binary":
        data = np.ones_like(data)
    elif values == "log":
        data = np.log2(1 + data)
    # Made without the constructor, which would look through all positions again.
    result = X.copy()
    result.data = data
    return result


def missing_implicit(method: str, error: ImportError) -> MissingLibrary:
    """Return the error that says what is missing and how to install it."""
    return MissingLibrary(
        f"{method} needs the library implicit, which cannot be imported here ({error}); "
        "install it with: pip install 'mom-pipeline[baselines]'"
    )


def as_user_items(X: Csr) -> sparse.csr_matrix:
    """Return a copy of the type, precision and order of indices that `implicit` expects."""
    matrix = sparse.csr_matrix(X, dtype=np.float32, copy=True)
    matrix.indices = matrix.indices.astype(np.int32, copy=False)
    matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    matrix.sort_indices()
    return matrix
