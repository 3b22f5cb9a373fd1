"""The rows of a day with the days of their pairs, stored whole or as a change of earlier ones.

A change refers to a whole matrix, never to another change: opening a day reads two artifacts at
most. When the rows that differ are no longer few, the day is stored whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.core.interactions import (
    NewArray,
    changed_rows,
    grown,
    some_rows,
    with_rows,
)
from mom_pipeline.core.types import Array

# A change may hold this share of all entries.
_MOST_CHANGED = 0.25

Arrays = dict[str, Array | csr_array]


@dataclass(frozen=True)
class DatedRows:
    """interactions: (N, D) counts.  last_days: (N, D), the day of each pair's last event."""

    interactions: csr_array
    last_days: csr_array

    @property
    def nbytes(self) -> int:
        X = self.interactions
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + self.last_days.data.nbytes)

    def as_arrays(self) -> Arrays:
        """Return all rows as named arrays; `from_arrays` reads them back."""
        return {"interactions": self.interactions, "last_days": self.last_days.data}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """Return the rows that `as_arrays` named."""
        X = csr_array(arrays["interactions"])
        return cls(X, csr_array((arrays["last_days"], X.indices, X.indptr), shape=X.shape))

    def since(self, whole: Self, empty: NewArray = np.empty) -> Arrays | None:
        """Return the rows that differ from earlier ones as named arrays; None where they are many.

        `with_change` of the earlier ones makes these rows of them. empty: makes the arrays.
        """
        X, days = self.interactions, self.last_days
        if whole.interactions.shape[0] > X.shape[0] or whole.interactions.shape[1] > X.shape[1]:
            return None
        users = np.union1d(changed_rows(whole.interactions, X), changed_rows(whole.last_days, days))
        if np.diff(X.indptr)[users].sum() > _MOST_CHANGED * X.nnz:
            return None
        changed = type(self)(some_rows(X, users, empty), some_rows(days, users, empty))
        return {**changed.as_arrays(), "users": users, "n_users": np.array(X.shape[0])}

    def with_change(self, arrays: Mapping[str, Any], empty: NewArray = np.empty) -> Self:
        """Return the rows that `since` told from these. empty: makes the arrays they lie in."""
        changed, users = self.from_arrays(arrays), arrays["users"]
        shape = int(arrays["n_users"]), changed.interactions.shape[1]
        return type(self)(
            with_rows(grown(self.interactions, shape), users, changed.interactions, empty),
            with_rows(grown(self.last_days, shape), users, changed.last_days, empty),
        )
