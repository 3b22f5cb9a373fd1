"""The sections on log files: what their columns are called and what a line means."""

import json
from dataclasses import asdict, dataclass, field
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.settings.checking import require

DELIMITERS = (",", ";", "|")
TIMESTAMP_FORMATS = ("iso", "epoch_s", "epoch_ms")


@dataclass(frozen=True)
class ColumnSettings:
    """Names of the columns in the log files; an empty optional name means "not there"."""

    user: str = "user"
    item: str = "item"
    timestamp: str = "timestamp"
    weight: str = ""
    exclude: str = ""

    def __post_init__(self) -> None:
        for key in ("user", "item", "timestamp"):
            require(bool(getattr(self, key)), f"logs.columns.{key}", "a column name", "")
        names = [name for name in asdict(self).values() if name]
        require(len(set(names)) == len(names), "logs.columns", "different names", names)
        for name in names:
            plain = '"' not in name and name.isprintable()
            require(plain, "logs.columns", "printable names without quotes", name)


@dataclass(frozen=True)
class LogSettings:
    """How log files are read. Everything but `max_reject_share` decides what a line means."""

    timezone: str = "UTC"
    delimiter: str = ","
    timestamp_format: str = "iso"
    max_reject_share: float = 0.01
    columns: ColumnSettings = field(default_factory=ColumnSettings)

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidSetting(
                "logs.timezone must be an IANA zone such as 'UTC' or 'Asia/Taipei', "
                f"found {self.timezone!r}; correct it there"
            ) from error
        require(
            self.delimiter in DELIMITERS, "logs.delimiter", f"one of {DELIMITERS}", self.delimiter
        )
        known = self.timestamp_format in TIMESTAMP_FORMATS or "%" in self.timestamp_format
        expected = f"one of {TIMESTAMP_FORMATS} or a pattern such as '%d/%m/%Y %H:%M'"
        require(known, "logs.timestamp_format", expected, self.timestamp_format)
        share_is_valid = 0 <= self.max_reject_share <= 1
        require(share_is_valid, "logs.max_reject_share", "in [0, 1]", self.max_reject_share)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def reading_rules(self) -> str:
        """The settings that decide what a line means, as canonical JSON for the ledger."""
        rules = asdict(self)
        del rules["max_reject_share"]
        return json.dumps(rules, sort_keys=True, ensure_ascii=False)
