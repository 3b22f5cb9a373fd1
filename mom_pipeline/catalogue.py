"""The catalogue: names, groups, pages and pictures of items, from `items.csv` in the data folder.

    item,name,group,url,image

`item` and `name` must be there. An item may have several groups: `Drama|Short`. A catalogue says
how an item is shown and never what is computed, except for items that are left out of lists. Names
are text: whoever shows one escapes it.
"""

import csv
import difflib
import io
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

from mom_pipeline.core.files import write_text
from mom_pipeline.core.interactions import MAX_ID
from mom_pipeline.errors import MomError

ITEMS_FILE = "items.csv"
GROUP_SEPARATOR = "|"
# What is kept of a name; and how much of one stands in a line of a table.
MAX_NAME, SHOWN_NAME = 500, 60
# A cell that begins with one of these is a formula to a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# Marks that turn the text after them around.
_BIDIRECTIONAL = dict.fromkeys(map(ord, "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e"))
_BIDIRECTIONAL |= dict.fromkeys(map(ord, "\u2066\u2067\u2068\u2069"))


class InvalidCatalogue(MomError):
    """`items.csv` or `users.csv` cannot be read as it is."""


@dataclass(frozen=True)
class Item:
    """What is known of an item beside its id."""

    item: str
    name: str = ""
    group: str = ""
    url: str = ""
    image: str = ""

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(part for part in self.group.split(GROUP_SEPARATOR) if part)


_COLUMNS = tuple(f.name for f in fields(Item))


@dataclass(frozen=True)
class Catalogue:
    """Items by id. doubled: ids that the file names more than once; the first line counts."""

    items: Mapping[str, Item] = field(default_factory=dict)
    doubled: tuple[str, ...] = ()

    @classmethod
    def open(cls, data_dir: Path) -> "Catalogue":
        """Read the catalogue of a data folder, empty without a file; may raise InvalidCatalogue."""
        path = data_dir / ITEMS_FILE
        lines = lines_of(path)
        try:
            return cls() if lines is None else cls.from_lines(lines)
        except (csv.Error, InvalidCatalogue) as error:
            raise InvalidCatalogue(f"{path}: {error}") from error

    @classmethod
    def from_lines(cls, lines: "csv.DictReader[str]") -> "Catalogue":
        """Take the lines of a file; those without an id or a name name nothing."""
        header = list(lines.fieldnames or [])
        if not {"item", "name"} <= set(header):
            raise InvalidCatalogue(
                f"expected the columns {','.join(_COLUMNS)}, of which item and name must be there, "
                f"found {header[:10]}; correct the first line"
            )
        items: dict[str, Item] = {}
        doubled = []
        for line in lines:
            values = {name: line[name].strip() for name in _COLUMNS if name in header}
            values["item"] = line["item"]  # ids are kept exactly
            entry = Item(**{**values, "name": tidy(values["name"])})
            if not entry.item or len(entry.item) > MAX_ID:
                continue
            if entry.item in items:
                doubled.append(entry.item)
            items.setdefault(entry.item, entry)
        return cls(items, tuple(dict.fromkeys(doubled)))

    def save(self, data_dir: Path) -> None:
        """Write the catalogue, whole or not at all, by id."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(astuple(self.items[item]) for item in sorted(self.items))
        write_text(data_dir / ITEMS_FILE, out.getvalue())

    def with_missing(self, others: Iterable[Item]) -> "Catalogue":
        """Return the catalogue with the entries of items that it does not hold yet."""
        added = {entry.item: entry for entry in others if entry.item not in self.items}
        return Catalogue({**self.items, **added}, self.doubled)

    def entry(self, item: str) -> Item:
        """What is known of an item; its id alone where that is all."""
        return self.items.get(item) or Item(item)

    def name(self, item: str) -> str:
        """The name of an item; "" where there is none."""
        return self.entry(item).name

    def label(self, item: str) -> str:
        """Return an item as a line of a table shows it: its name and its id, or its id alone."""
        name = self.name(item)
        return f"{shortened(name)} ({item})" if name and name != item else item

    def left_out(self, items: Collection[str], groups: Collection[str]) -> frozenset[str]:
        """Return the ids of some items, and of all items of some groups."""
        wanted = set(groups)
        of_groups = (i for i, entry in self.items.items() if wanted.intersection(entry.groups))
        return frozenset(items).union(of_groups)


def lines_of(path: Path) -> "csv.DictReader[str] | None":
    """Open a file with a header; None where there is none. Raises InvalidCatalogue if not UTF-8."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidCatalogue(
            f"{path} must be a file in UTF-8: {error}; save it so, or remove it"
        ) from error
    return csv.DictReader(io.StringIO(text, newline=""), restval="")


def tidy(name: str) -> str:
    """Return a name in one line, without marks that turn other text around, and not endless."""
    name = name[: 4 * MAX_NAME].translate(_BIDIRECTIONAL)
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:MAX_NAME]


def shortened(name: str) -> str:
    return name if len(name) <= SHOWN_NAME else f"{name[: SHOWN_NAME - 1]}…"


def as_cell(text: str) -> str:
    """Return text for a cell of a spreadsheet: never a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def did_you_mean(wanted: str, known: Collection[str]) -> str:
    """Return "; did you mean …?" with the known ids that are most like one, or ""."""
    folded = wanted.casefold()
    same = [one for one in known if one.casefold() == folded]
    alike = [one for one in known if abs(len(one) - len(wanted)) <= 2]
    near = list(dict.fromkeys([*same, *difflib.get_close_matches(wanted, alike, 3, 0.7)]))[:3]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
