"""What can be wrong with a question."""

from mom_pipeline.core.errors import MomError

_SHOWN = 80


class InvalidQuestion(MomError, ValueError):
    """A question outside of its limits."""


class UnknownUser(MomError, LookupError):
    """The model has no history of the user."""


class UnknownItem(MomError, LookupError):
    """The model does not know the item."""


def shown(name: str) -> str:
    """Return an id as it may stand in a sentence: quoted, without control characters, short."""
    text = ascii(name) if not name.isprintable() else repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
