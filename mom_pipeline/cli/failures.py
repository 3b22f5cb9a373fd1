"""Failures of the machine, such as a full disk, in one sentence that says what to do."""

from typing import Any

from mom_pipeline.core.errors import MomError

# What an error says, and what to do about it. The texts are those of the system, SQLite and DuckDB.
_REMEDIES = (
    (
        ("No space left on device", "disk is full", "Disk quota exceeded", "File too large"),
        "Make room on the disk, or raise the limit, and run the command again: it goes on from "
        "what is complete",
    ),
    (
        ("Read-only file system", "readonly database", "Permission denied", "not permitted"),
        "Give the user of this command the right to write to the data folder, and run it again",
    ),
    (
        ("is not a database", "image is malformed", "unsupported file format"),
        "This is Dagster's history: move dagster_home out of the data folder, and the next run "
        "makes a new one; days and models are not in it",
    ),
    (
        ("Could not read enough bytes", "Corrupt database file", "does not match stored checksum"),
        "The warehouse is damaged: restore it from a copy, or remove it, and `mom-pipeline update` "
        "reads the log files again",
    ),
    (
        ("disk I/O error", "Input/output error", "unable to open database file"),
        "Look at the room on the disk and at the rights on the data folder, and run the command "
        "again: it goes on from what is complete",
    ),
)


def sentence_for(error: BaseException | None) -> str:
    """One sentence about a failure of the machine, be it a cause; "" for any other error."""
    while error is not None:
        words = _words(error)
        if remedy := remedy_for(words):
            return f"{words}. {remedy}"
        error = error.__cause__ or error.__context__
    return ""


def remedy_for(words: str) -> str:
    """What to do about the message of an error; "" when it is none of the machine."""
    return next((remedy for texts, remedy in _REMEDIES if any(t in words for t in texts)), "")


def told(error: Any) -> tuple[str, str]:
    """What a failed step said, and the remedy; "" where none is known.

    error: as Dagster keeps it. Our own sentence where there is one, else that of the first cause.
    """
    ours, said, remedy, message = _names(MomError), "", "", "no message"
    while error is not None:
        message = error.message.strip()
        said = said or (message if error.cls_name in ours else "")
        remedy = remedy_for(message) or remedy
        error = error.cause
    return said or message, remedy


def _names(kind: type[Any]) -> set[str]:
    """The names of a class and of all that derive from it."""
    return {kind.__name__}.union(*(_names(derived) for derived in kind.__subclasses__()))


def _words(error: BaseException) -> str:
    """What an error of the system, SQLite or DuckDB says, in one line; "" for others."""
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}"
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if names & {"sqlite3", "_duckdb", "duckdb"} and "sqlalchemy" not in names:
        return str(error).partition("\n")[0]
    return ""
