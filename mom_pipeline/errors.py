"""Errors of logs, warehouse, artifacts, datasets and Dagster's history."""

from mom_pipeline.core.errors import MomError


class LogFileError(MomError):
    """A log file cannot be ingested as it is; the warehouse is unchanged."""


class LogFileNotRead(LogFileError):
    """A log file could not be read, or stored, just now; the same bytes are tried again."""


class TooManyRejects(LogFileError):
    """The share of malformed lines is above `logs.max_reject_share`."""


class LinesNotAccounted(LogFileError):
    """Lines in differ from accepted + rejected + header: nothing was stored."""


class WarehouseBusy(MomError):
    """Another process held the warehouse for longer than the bounded wait."""


class DataFolderBusy(MomError):
    """Another process writes to the data folder."""


class DataFolderClosed(MomError):
    """The data folder cannot be written to."""


class HistoryBusy(MomError):
    """Another process holds Dagster's history."""


class WarehouseMissing(MomError):
    """There is no warehouse to read yet."""


class WarehouseUnreadable(MomError):
    """The warehouse file is damaged, or of another version of DuckDB."""


class DamagedArtifact(MomError):
    """A stored artifact is incomplete or differs from its manifest."""


class ExpiredArrays(DamagedArtifact):
    """The arrays of an artifact were removed on purpose; its manifest is there."""


class DatasetError(MomError):
    """A dataset file is not in its published format."""
