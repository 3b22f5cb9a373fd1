"""What the sections of the settings check their values with."""

from datetime import date

from mom_pipeline.core.errors import InvalidSetting


def is_day(text: str) -> bool:
    """Whether a text is a day, written as YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def require(condition: bool, key: str, expected: str, found: object) -> None:
    """Raise InvalidSetting, naming the key, unless the condition holds."""
    if not condition:
        raise InvalidSetting(f"{key} must be {expected}, found {found!r}; correct it there")
