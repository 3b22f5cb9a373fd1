"""Published datasets: adapters of those of the paper and of two with names; ready splits."""

import csv
import io
import zlib
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

from mom_pipeline.catalogue import Item, tidy
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.datasets.importing import Dataset, EventFields, RawFile, delimited_file, open_text
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.readers import Layout, Query
from mom_pipeline.logs.scan import MARK, MAX_LINE_BYTES
from mom_pipeline.settings import ColumnSettings
from mom_pipeline.warehouse.connection import Connection, load_sql

_TAFENG = (
    "TRANSACTION_DT,CUSTOMER_ID,AGE_GROUP,PIN_CODE,PRODUCT_SUBCLASS,PRODUCT_ID,AMOUNT,ASSET,"
    "SALES_PRICE"
)
_TAFENG_FIELDS, _MONTHS, _TRAIN_MONTHS = 9, ("D01", "D02", "D11", "D12"), (1, 11)
_ONLINE_RETAIL = "InvoiceNo,StockCode,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"
_DESCRIPTION = "Description"  # as UCI publishes it; copies without it are common
_EXCLUDE = """
    CASE
        WHEN {CustomerID} = '' THEN 'no customer'
        WHEN starts_with({InvoiceNo}, 'C') THEN 'cancellation'
        WHEN coalesce(TRY_CAST({Quantity} AS BIGINT), 0) <= 0 THEN 'quantity not positive'
        ELSE ''
    END
"""
# Million Song and Yandex carry no dates: their first day is declared.
_DECLARED = date(2012, 1, 1)
_LAST_TRAIN_DAY, _MIN_CLICKS = 14, 5  # of Yandex


def _read_header(path: Path, delimiter: str, encoding: str = "utf-8-sig") -> list[str]:
    """The names in the first line of a file, plain or gzip."""
    if not path.is_file():
        raise DatasetError(f"{path} is not a file; give the path of the published file")
    try:
        with open_text(path) as stream, io.TextIOWrapper(stream, encoding, newline="\n") as lines:
            text = lines.readline(MAX_LINE_BYTES).rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    return next(csv.reader([text], delimiter=delimiter), [])


def _bare(path: Path, delimiter: str, n_fields: int, fields: EventFields) -> RawFile:
    """A file of delimited text without a header, in which a quote is a character."""
    layout = Layout(delimiter, n_fields, n_fields, header_lines=0, quoted=False)
    return delimited_file(path, layout, fields)


def _only(folder: Path, pattern: str) -> Path:
    """The one file of a folder that a pattern fits."""
    matches = sorted(folder.glob(pattern)) if folder.is_dir() else []
    if len(matches) != 1:
        raise DatasetError(
            f"{folder} must be a folder with exactly one file {pattern}, found "
            f"{[match.name for match in matches]}"
        )
    return matches[0]


def online_retail(path: Path) -> Dataset:
    """UCI Online Retail, `online_retail.csv` or `.csv.gz`: invoice lines, each of weight 1."""
    header = _read_header(path, ",")
    _require_header(path, [name for name in header if name != _DESCRIPTION], _ONLINE_RETAIL)
    at = {name: f"f[{number}]" for number, name in enumerate(header, start=1)}
    fields = EventFields(
        time=f"coalesce(try_strptime({at['InvoiceDate']}, '%Y-%m-%d %H:%M:%S'), "
        f"try_strptime({at['InvoiceDate']}, '%m/%d/%Y %H:%M'))",
        user=at["CustomerID"],
        item=at["StockCode"],
        exclude=_EXCLUDE.format(**at),
        item_name=at.get(_DESCRIPTION, "''"),
    )
    return Dataset(
        name="online-retail",
        timezone="Europe/London",
        files=(delimited_file(path, Layout(",", len(header), len(header)), fields),),
        rules="set aside: lines without a customer, cancellations, quantities not positive",
    )


def _require_header(path: Path, header: list[str], expected: str) -> None:
    if header != expected.split(","):
        raise DatasetError(
            f"{path} must begin with the header {expected!r}, found {','.join(header)[:200]!r}; "
            "give the published file"
        )


def movietweetings(path: Path) -> Dataset:
    """A folder with `ratings.dat` (user::film::rating::seconds) and `movies.dat`, plain or .gz."""
    fields = EventFields(
        time="CASE WHEN f[1] <> '' AND f[2] <> '' AND regexp_full_match(f[4], '[0-9]{1,12}') "
        "THEN make_timestamp(1000000 * f[4]::BIGINT) END",
        user="f[1]",
        item="f[2]",
    )
    return Dataset(
        name="movietweetings",
        files=(_bare(_only(path, "ratings.dat*"), "::", 4, fields),),
        rules="every rating counts once",
        items=partial(_titles, _only(path, "movies.dat*")),
    )


def _titles(path: Path) -> Iterator[Item]:
    """Yield the films of `movies.dat`; a title may hold the separator, an id and genres do not."""
    with open_text(path) as stream, io.TextIOWrapper(stream, "utf-8", newline="\n") as lines:
        for line in lines:
            film, _, rest = line.rstrip("\r\n").partition("::")
            title, _, genres = rest.rpartition("::")
            if film and title:
                yield Item(film, tidy(title), genres)


def tafeng(path: Path) -> Dataset:
    """Ta-Feng grocery purchases (section 4.1): the merged CSV, or a folder with D01 D02 D11 D12."""
    return Dataset(
        name="tafeng",
        timezone="Asia/Taipei",
        files=_monthly_files(path) if path.is_dir() else (_merged_file(path),),
        rules="training: January and November; test: February and December",
        train_days=lambda day: day.month in _TRAIN_MONTHS,
    )


def _merged_file(path: Path) -> RawFile:
    _require_header(path, _read_header(path, ","), _TAFENG)
    fields = EventFields(time="try_strptime(f[1], '%m/%d/%Y')", user="f[2]", item="f[6]")
    return delimited_file(path, Layout(",", _TAFENG_FIELDS, _TAFENG_FIELDS), fields)


def _monthly_files(folder: Path) -> tuple[RawFile, ...]:
    """D01 … D12, with or without a suffix; ids are padded with blanks there."""
    fields = EventFields(
        time="try_strptime(f[1], '%Y-%m-%d %H:%M:%S')", user="trim(f[2])", item="trim(f[6])"
    )
    paths = [_only(folder, f"{month}*") for month in _MONTHS]
    for path in paths:
        if len(_read_header(path, ";", encoding="big5")) != _TAFENG_FIELDS:
            raise DatasetError(f"{path} must have {_TAFENG_FIELDS} columns separated by ;")
    layout = Layout(";", _TAFENG_FIELDS, _TAFENG_FIELDS)
    return tuple(delimited_file(path, layout, fields) for path in paths)


def million_song(path: Path) -> Dataset:
    """Million Song (section 4.2): a folder with one `…visible….txt` and one `…hidden….txt` file.

    Triplets `user<TAB>song<TAB>plays` carry no dates: each half is declared to be of one day.
    """
    files = []
    for offset, half in enumerate(("visible", "hidden")):
        fields = EventFields(
            time="CASE WHEN f[1] <> '' AND f[2] <> '' AND regexp_full_match(f[3], "
            "'[1-9][0-9]{0,8}') THEN $day::TIMESTAMP END",
            user="f[1]",
            item="f[2]",
            weight="f[3]",
            parameters={"day": str(_DECLARED + timedelta(days=offset))},
        )
        files.append(_bare(_only(path, f"*{half}*.txt*"), "\t", 3, fields))
    return Dataset(
        name="million-song",
        columns=ColumnSettings(weight="weight", exclude="exclude"),
        files=tuple(files),
        rules="visible half: training; hidden half: test; one declared day each; plays as weight",
        train_days=lambda day: day == _DECLARED,
    )


def yandex(path: Path, sample_users: int = 1_000_000, seed: int = 0) -> Dataset:
    """Yandex personalised web search (section 4.3): the session log (`train`, plain or .gz).

    Records, separated by tabs: `SessionID M Day UserID`; `SessionID TimePassed Q|T SERPID …`;
    `SessionID TimePassed C SERPID URLID`, the events. Days carry no date: day 1 is declared.
    """
    if not path.is_file():
        raise DatasetError(f"{path} is not a file; give the session log")
    before_first = _DECLARED - timedelta(days=1)
    parameters: dict[str, object] = {"before_first": str(before_first), "mark": MARK}
    raw = RawFile(
        path,
        Query(load_sql("datasets/yandex.sql"), parameters),
        other_lines="regexp_matches(text, '^[0-9]+\\t(M|[0-9]+\\t[QT])\\t')",
    )
    last_train = before_first + timedelta(days=_LAST_TRAIN_DAY)

    def select_clicks(connection: Connection) -> None:
        connection.execute(load_sql("datasets/yandex_rare.sql"), {"min_clicks": _MIN_CLICKS})
        sample = {"sample_users": sample_users, "seed": str(seed)}
        connection.execute(load_sql("datasets/yandex_sample.sql"), sample)

    return Dataset(
        name="yandex",
        files=(raw,),
        rules=f"clicks on URLs with at least {_MIN_CLICKS} clicks; a sample of {sample_users} "
        f"users, seed {seed}; days 1-14 train, 15-27 test",
        train_days=lambda day: day <= last_train,
        finish=select_clicks,
    )


DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "tafeng": tafeng,
    "million-song": million_song,
    "yandex": yandex,
    "online-retail": online_retail,
    "movietweetings": movietweetings,
}


def read_split(train: Path, test: Path) -> tuple[Csr, Csr]:
    """Training and test matrix, binary, of two files with lines of `user item item ...`."""
    (train_users, train_items), (test_users, test_items) = map(_read_pairs, (train, test))
    users, rows = np.unique(np.concatenate([train_users, test_users]), return_inverse=True)
    items, columns = np.unique(np.concatenate([train_items, test_items]), return_inverse=True)
    matrices: list[Csr] = [
        sparse.csr_array((np.ones(len(r)), (r, c)), shape=(len(users), len(items)))
        for r, c in zip(*(np.split(a, [len(train_users)]) for a in (rows, columns)), strict=True)
    ]
    for matrix in matrices:
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
    return matrices[0], matrices[1]


def _read_pairs(path: Path) -> tuple[Array, Array]:
    """Return the user and the item of every pair in one file."""
    try:
        with open_text(path) as file:
            rows = [np.array([int(number) for number in line.split()], np.int64) for line in file]
        if not rows or min(row.min() for row in rows) < 0:
            raise ValueError("no line, or a number below 0")
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist; give a file of a ready split") from None
    except (OSError, EOFError, ValueError, OverflowError, zlib.error) as error:
        raise DatasetError(
            f"{path} must hold lines of `user item item ...`, whole numbers from 0 on: {error}"
        ) from error
    users = np.repeat([row[0] for row in rows], [len(row) - 1 for row in rows])
    return users, np.concatenate([row[1:] for row in rows])
