"""The base of all errors of the project, and those of settings, logs, warehouse and artifacts.

Each says what was expected, what was found and what to do. Those of the method are in `core`.
"""


class MomError(Exception):
    """Base of every error that this project raises on purpose."""


class InvalidSetting(MomError, ValueError):
    """A setting is outside of its range, or does not fit another one."""


class LogFileError(MomError):
    """A log file cannot be ingested as it is; the warehouse is unchanged."""


class LogFileNotRead(LogFileError):
    """A log file could not be read, or stored, just now; the same bytes are tried again."""


class WarehouseBusy(MomError):
    """Another process held the warehouse for longer than the bounded wait."""


class DataFolderBusy(MomError):
    """Another process writes to the data folder."""


class DataFolderClosed(MomError):
    """The data folder cannot be written to."""


class WarehouseUnreadable(MomError):
    """There is no warehouse to read: not yet, or it is damaged or of another version of DuckDB."""


class DamagedArtifact(MomError):
    """A stored artifact is incomplete or differs from its manifest."""


class DatasetError(MomError):
    """A dataset file is not in its published format."""
