"""`DayRows` and `Engine`: the rows as of a day, and who visits their users."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mom_pipeline.core.moments.users import Users, UsersInMemory
from mom_pipeline.core.types import Array, Csr


@dataclass(frozen=True)
class DayRows:
    """The rows as of a day. X: (N, D).  last_days: (N, D), of the last event of every entry."""

    X: Csr
    last_days: Csr
    version: str


class Engine(Protocol):
    """Who visits the users of a day, and where arrays with their rows lie."""

    def users(self, rows: DayRows, /) -> Users: ...
    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], /) -> Array: ...


class InMemory:
    """Everything in this process."""

    def users(self, rows: DayRows) -> Users:
        return UsersInMemory(rows.X, rows.last_days)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return np.empty(shape, dtype)


IN_MEMORY = InMemory()
