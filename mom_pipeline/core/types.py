"""Types of the arrays that functions take and return."""

from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array: TypeAlias = NDArray[Any]
Float64: TypeAlias = NDArray[np.float64]
# Users x items, or items x items. The precision varies; see where it is made.
Csr: TypeAlias = sparse.csr_array


class SentPlain:
    """A dataclass that is sent to another process without what was computed from its fields."""

    def __getstate__(self) -> dict[str, Any]:
        return {own.name: getattr(self, own.name) for own in fields(self)}  # type: ignore[arg-type]
