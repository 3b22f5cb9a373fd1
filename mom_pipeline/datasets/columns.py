"""Which column of a file is what: by the words of its name, in eight languages, and its values."""

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from mom_pipeline.logs.readers import fitting_formats

ROLES = ("user", "item", "timestamp", "clock", "weight", "event", "item_name", "item_group")
# The order in which columns are given to them.
_ORDER = ("timestamp", "clock", "user", "item", "weight", "event", "item_group", "item_name")
# Words that take a column out of those of ids.
_NO_ID = ("item_name", "item_group", "price", "weight")
_SHORT = 4
_NUMBER = re.compile(r"[^\w(+-]*[(+-]?\W*[0-9][0-9.,'’\s]*\W*([A-Za-zł]{1,3}\.?)?")
_DECIMAL = re.compile(r"[+-]?[0-9]*[.,][0-9]+")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AP]\.?M\.?)?", re.IGNORECASE)
_MOSTLY, _FEW = 0.95, 200
# Different values of a column of event types, at most.
_MOST_TYPES = 20
# Characters of a time that tell its day, mostly; rows from which on ids come again.
_DAY, _MANY = 10, 100
# A share of empty values from which on another column is rather meant.
SPARSE = 0.5


@dataclass(frozen=True)
class Sample:
    """Rows from all over a file, as text by column."""

    header: tuple[str, ...]
    rows: list[list[str]]

    def column(self, name: str) -> list[str]:
        at = self.header.index(name)
        return [row[at] if len(row) > at else "" for row in self.rows]


@lru_cache
def words(role: str) -> tuple[str, ...]:
    """Return the words of a role, the most telling first."""
    text = files("mom_pipeline").joinpath("datasets/column_names.toml").read_text("utf-8")
    return tuple(tomllib.loads(text)[role])


def folded(text: str) -> str:
    """Return text in small letters without accents."""
    parts = unicodedata.normalize("NFKD", text.replace("ł", "l").replace("Ł", "L"))
    return "".join(c for c in parts if not unicodedata.combining(c)).casefold()


def rank(role: str, name: str) -> int | None:
    """Return how telling a column's name is for a role, 0 the most; None where it is not."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    parts = [part for part in re.split(r"[\W_]+", folded(split)) if part]
    parts += ["".join(parts)]  # StockCode
    # `userid`, `kundennr`: one word that ends in what an id is called.
    ends = "|".join(words("id"))
    parts += [re.sub(rf"(({ends})s?|s)$", "", part) for part in parts]
    for number, word in enumerate(words(role)):
        if word in parts or (len(word) > _SHORT and any(word in part for part in parts)):
            return number
        if role == "timestamp" and any(part.endswith(word) for part in parts if len(word) > 3):
            return number
    return None


def is_id(name: str) -> bool:
    """Tell whether a name ends as that of an id does."""
    return re.search(rf"({'|'.join(words('id'))})$", folded(name)) is not None


def is_return(event: str) -> bool:
    """Tell whether a type of events takes an earlier one away, by its name."""
    return any(word in folded(event) for word in words("returns"))


def is_lending(event: str) -> bool:
    """Tell whether a type of events gives something for a time, by its name."""
    return any(word in folded(event) for word in words("lending"))


def named(role: str, name: str) -> tuple[int, ...] | None:
    """Return a key to sort the columns of a role by, the best first; None for no such column."""
    found = rank(role, name)
    if found is None:
        return None
    if role not in ("user", "item"):
        of_user = role in ("item_name", "item_group") and rank("user", name) is not None
        return None if of_user else (rank("price", name) is not None, found)
    if any(rank(other, name) is not None for other in _NO_ID) and not is_id(name):
        return None
    if role == "item" and rank("user", name) == 0:
        return None
    return rank("other", name) is not None, not is_id(name), found


def holds(role: str, values: Sequence[str]) -> bool:
    """Tell whether the values of a column are what a role needs."""
    there = [value for value in values if value.strip()]
    if role == "timestamp":
        fits = fitting_formats(there[:: max(len(there) // _FEW, 1)])
        return bool(fits) and fits[0].share >= _MOSTLY
    if role in ("clock", "weight"):
        pattern = _CLOCK if role == "clock" else _NUMBER
        fitting = sum(bool(pattern.fullmatch(value.strip())) for value in there)
        return fitting >= _MOSTLY * max(len(there), 1)
    if role == "event":
        kinds = {folded(value).strip().replace(" ", "_") for value in there}
        return len(kinds) <= _MOST_TYPES and bool(kinds & set(words("types")))
    if role in ("user", "item"):
        return len(set(there[:_FEW])) > 1 or len(there) < 3
    return bool(there)


def choose(sample: Sample, chosen: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The column of every role, "" for none, and the roles in doubt. chosen: by a person."""
    chosen, doubtful = dict(chosen), []
    for role in _ORDER:
        if role in chosen:
            continue
        free = [name for name in sample.header if name not in chosen.values()]
        if role == "clock":
            dates = sample.column(chosen["timestamp"]) if chosen["timestamp"] else [":"]
            clocks = [] if ":" in "".join(dates) else free
            chosen[role] = next((n for n in clocks if holds(role, sample.column(n))), "")
            continue
        ranked = sorted((key, name) for name in free if (key := named(role, name)) is not None)
        if role in ("item_name", "item_group"):  # Lineitem name, beside Lineitem sku
            ranked.sort(key=lambda one: (one[0], not _beside(one[1], chosen["item"])))
        fitting = [name for _, name in ranked if holds(role, sample.column(name))]
        fitting.sort(key=lambda name: empty(sample.column(name)) > SPARSE)
        if not fitting and role in ("user", "item"):
            fitting = [name for _, name in ranked]
        if not fitting and role in ("timestamp", "event"):
            fitting = [name for name in free if holds(role, sample.column(name))]
            fitting = [name for name in fitting if rank("price", name) is None]
            fitting = [name for name in fitting if not _is_serial(role, sample.column(name))]
        chosen[role] = fitting[0] if fitting else ""
    for role in ("user", "item"):
        if not chosen[role]:
            chosen[role] = next(iter(_likely_ids(sample, chosen)), "")
            doubtful.append(role)
    if not chosen["item_name"]:  # Artikel beside Artikelnummer
        free = [name for name in sample.header if name not in chosen.values()]
        chosen["item_name"] = next((name for name in free if _is_name(name, sample)), "")
    return chosen, doubtful


def empty(values: Sequence[str]) -> float:
    """Return the share of values that are not there."""
    return sum(not value.strip() for value in values) / max(len(values), 1)


def _beside(name: str, item: str) -> bool:
    """Tell whether a column is called by a word of the item's, as the columns of one thing are."""
    one, two = (set(re.split(r"[\W_]+", folded(text))) - {""} for text in (name, item))
    return bool(one & two)


def _is_serial(role: str, values: Sequence[str]) -> bool:
    """Tell whether times are days as Excel counts them, which any numbers of five digits may be."""
    return role == "timestamp" and fitting_formats(values)[0].name == "excel"


def _is_name(name: str, sample: Sample) -> bool:
    values = [value for value in sample.column(name) if value]
    texts = sum(any(c.isalpha() for c in value) for value in values)
    return rank("item", name) is not None and not is_id(name) and texts > 0.8 * len(values) > 0


def _likely_ids(sample: Sample, chosen: dict[str, str]) -> list[str]:
    """Return the free columns whose values come again at other times, as ids do: those missing.

    An order's number has one time, and a store's is one of a few. Of the two columns with the most
    different values the first is taken for the user.
    """
    found = []
    times = [str(n) for n in range(len(sample.rows))]
    if chosen["timestamp"]:
        times = [time[:_DAY] for time in sample.column(chosen["timestamp"])]
    for name in sample.header:
        values = sample.column(name)
        decimals = any(_DECIMAL.fullmatch(value) for value in values)
        no_id = any(rank(role, name) is not None for role in (*_NO_ID, "timestamp"))
        if name in chosen.values() or decimals or (no_id and not is_id(name)):
            continue
        if empty(values) > SPARSE:
            continue
        first: dict[str, str] = {}
        again = sum(
            time != first.setdefault(value, time) for value, time in zip(values, times, strict=True)
        )
        if len(first) > 1:
            small = len(values) < _MANY
            found.append((not (again or small), rank("other", name) is not None, len(first), name))
    missing = sum(not chosen[role] for role in ("user", "item") if role in chosen)
    likely = sorted(found, key=lambda one: (*one[:2], -one[2]))
    best = {name for *_, name in likely[:missing]}
    return [name for name in sample.header if name in best]
