"""Settings of a recommender: filled in, checked, and applied to the counts."""

import numpy as np

from mom_pipeline.comparison.methods.interface import Setting, Settings
from mom_pipeline.core.errors import InvalidSetting, MomError
from mom_pipeline.core.types import Csr

VALUES = ("binary", "counts", "log")


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
