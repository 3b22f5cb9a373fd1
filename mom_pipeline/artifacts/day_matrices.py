"""`DayMatrices`: the rows as of each day, stored whole or as a change of an earlier day."""

from datetime import date
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.artifacts.dated_rows import DatedRows
from mom_pipeline.artifacts.day_artifacts import DayArtifacts, StaleArtifact
from mom_pipeline.artifacts.scratch import new_array
from mom_pipeline.artifacts.store import Artifact
from mom_pipeline.core.day_rows import DayRows
from mom_pipeline.core.types import Array
from mom_pipeline.errors import DamagedArtifact
from mom_pipeline.settings import Settings

# A matrix that is stored as a change of a whole one: the version of that among its parents, the
# day of it among the facts.
_WHOLE, _WHOLE_DAY = "whole_matrix", "whole_day"
# The largest whole matrix that stays in memory.
_KEPT_BYTES = 200_000_000


class DayMatrices(DayArtifacts):
    """The rows of each day, read and written."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        # The last two: an erasure needs one as it was and as it is.
        self._whole_rows: dict[str, DatedRows] = {}

    def fitting(self, asset: str, day: date, *, with_arrays: bool = True) -> Artifact:
        """An artifact that can be built upon, with the whole one that it is a change of."""
        artifact = super().fitting(asset, day, with_arrays=with_arrays)
        self._require_whole(artifact)
        return artifact

    def matrix(self, day: date) -> tuple[csr_array, str]:
        """The interaction matrix as of a day, and its version."""
        artifact = self.fitting("interaction_matrix", day)
        return self._rows_in(artifact).interactions.copy(), artifact.version

    def rows(self, day: date) -> DayRows:
        """The rows as of a day, with the days of their pairs; not to be written to."""
        artifact = self.fitting("interaction_matrix", day)
        rows = self._rows_in(artifact)
        return DayRows(rows.interactions, rows.last_days, artifact.version)

    def last_days(self, day: date) -> csr_array:
        """The day of the last event of every pair of the matrix as of a day."""
        return self.rows(day).last_days

    def _rows_in(self, artifact: Artifact) -> DatedRows:
        if _WHOLE not in artifact.parents:
            return self._keep_whole(artifact.version, DatedRows.from_arrays(artifact.arrays))
        whole = self._whole(artifact.metadata[_WHOLE_DAY], artifact.parents[_WHOLE])
        return whole.with_change(artifact.arrays, self.new_array)

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A new array for rows: in memory, or in a file where rows are to stay in files."""
        return new_array(self.settings, shape, dtype)

    def _whole(self, day: str, version: str) -> DatedRows:
        """The whole matrix that a change refers to, kept in memory from day to day."""
        known = self._whole_rows.get(version)
        if known is not None:
            return known
        return self._rows_in(self.fitting("interaction_matrix", date.fromisoformat(day)))

    def _keep_whole(self, version: str, rows: DatedRows) -> DatedRows:
        if rows.nbytes <= _KEPT_BYTES:
            self._whole_rows = {**dict([*self._whole_rows.items()][-1:]), version: rows}
        return rows

    def _require_whole(self, artifact: Artifact) -> None:
        """Raise StaleArtifact when the whole matrix is gone that an artifact is a change of."""
        version = artifact.parents.get(_WHOLE)
        if version is None or version in self._whole_rows:
            return
        day = date.fromisoformat(artifact.metadata[_WHOLE_DAY])
        if self.artifacts.version("interaction_matrix", day) != version:
            raise StaleArtifact(
                f"{artifact.asset} of {artifact.day} is stored as a change of that of {day}, "
                "which was replaced or removed since"
            )

    def write_matrix(
        self, day: date, X: csr_array, last_days: csr_array, fingerprint: str
    ) -> Artifact:
        """Store the matrix as of a day, with the days of its pairs. fingerprint: of the logs."""
        rows, parents = DatedRows(X, last_days), {"raw_logs": fingerprint}
        facts: dict[str, Any] = {"pairs": X.nnz}
        whole = self._whole_before(day)
        change = None if whole is None else rows.since(self._whole(*whole), self.new_array)
        if whole is None or change is None:
            written = self.write("interaction_matrix", day, rows.as_arrays(), parents, facts)
            self._keep_whole(written.version, rows)
            return written
        whole_day, version = whole
        parents[_WHOLE] = version
        facts[_WHOLE_DAY] = whole_day
        return self.write("interaction_matrix", day, change, parents, facts)

    def _whole_before(self, day: date) -> tuple[str, str] | None:
        """Day and version of the matrix that a day's may be stored as a change of.

        None where there is none. Others may be changes of a day that is whole: it stays whole.
        """
        before = self.day_before(day)
        try:
            if self.artifacts.version("interaction_matrix", day) is not None:
                now = self.artifacts.describe("interaction_matrix", day)
                if _WHOLE not in now.parents:
                    return None
            stored = self.fitting("interaction_matrix", before, with_arrays=False)
            whole = stored.metadata.get(_WHOLE_DAY, before.isoformat())
            version = stored.parents.get(_WHOLE, stored.version)
            self._whole(whole, version)
        except (StaleArtifact, DamagedArtifact):
            return None
        return (whole, version) if before < day else None
