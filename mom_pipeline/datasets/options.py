"""What can be chosen for an import; each adapter takes what concerns it."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class ImportOptions:
    """Choices of an import, with the paper's own as defaults."""

    # csv
    user: str = "user"
    item: str = "item"
    timestamp: str = "timestamp"
    weight: str = ""
    timestamp_format: str = "iso"
    delimiter: str = ","
    timezone: str = "UTC"
    # yandex
    min_clicks: int = 5
    sample_users: int = 1_000_000
    seed: int = 0
    # million-song and yandex carry no dates: their first day is declared
    first_day: date = date(2012, 1, 1)
