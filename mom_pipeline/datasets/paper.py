"""The three datasets of the paper, with its splits into training and test days."""

from datetime import timedelta
from functools import partial
from pathlib import Path

from mom_pipeline.datasets.delimited import (
    EventFields,
    delimited_file,
    read_header,
    require_header,
)
from mom_pipeline.datasets.importing import Dataset, ImportOptions, RawFile
from mom_pipeline.errors import DatasetError
from mom_pipeline.settings import ColumnSettings
from mom_pipeline.warehouse.connection import Connection, load_sql

_TAFENG = [
    "TRANSACTION_DT",
    "CUSTOMER_ID",
    "AGE_GROUP",
    "PIN_CODE",
    "PRODUCT_SUBCLASS",
    "PRODUCT_ID",
    "AMOUNT",
    "ASSET",
    "SALES_PRICE",
]
_MONTHS = ("D01", "D02", "D11", "D12")
_TRAIN_MONTHS = (1, 11)
_LAST_TRAIN_DAY = 14  # of Yandex


def tafeng(path: Path, _: ImportOptions) -> Dataset:
    """Ta-Feng grocery purchases (section 4.1): November 2000 to February 2001.

    Either a folder with the four monthly files (D01, D02, D11, D12: `;`-separated, Big5 header)
    or the merged CSV. A line is one sale of weight 1.
    """
    return Dataset(
        name="tafeng",
        timezone="Asia/Taipei",
        columns=ColumnSettings(),
        files=_monthly_files(path) if path.is_dir() else (_merged_file(path),),
        rules="training: January and November; test: February and December",
        train_days=lambda day: day.month in _TRAIN_MONTHS,
    )


def _merged_file(path: Path) -> RawFile:
    require_header(path, _TAFENG)
    fields = EventFields(time="try_strptime(f[1], '%m/%d/%Y')", user="f[2]", item="f[6]")
    return delimited_file(path, ",", len(_TAFENG), fields)


def _monthly_files(folder: Path) -> tuple[RawFile, ...]:
    """D01 … D12, with or without a suffix; ids are padded with blanks there."""
    fields = EventFields(
        time="try_strptime(f[1], '%Y-%m-%d %H:%M:%S')", user="trim(f[2])", item="trim(f[6])"
    )
    raw = []
    for month in _MONTHS:
        matches = [p for p in sorted(folder.iterdir()) if p.name.split(".")[0].upper() == month]
        if len(matches) != 1:
            raise DatasetError(
                f"{folder} must hold exactly one file {month}, found {[p.name for p in matches]}; "
                f"give the folder with {', '.join(_MONTHS)}, or the merged CSV"
            )
        if len(read_header(matches[0], ";", encoding="big5")) != len(_TAFENG):
            raise DatasetError(f"{matches[0]} must have {len(_TAFENG)} columns separated by ;")
        raw.append(delimited_file(matches[0], ";", len(_TAFENG), fields))
    return tuple(raw)


def million_song(path: Path, options: ImportOptions) -> Dataset:
    """Million Song (section 4.2): a folder with one `…visible….txt` and one `…hidden….txt` file.

    Triplets `user<TAB>song<TAB>plays` carry no dates: the visible half, for training, is declared
    to be the first day, the hidden half, for test, the second. Plays are the weight.
    """
    files = []
    for offset, half in enumerate(("visible", "hidden")):
        matches = sorted(path.glob(f"*{half}*.txt*")) if path.is_dir() else []
        if len(matches) != 1:
            raise DatasetError(
                f"{path} must be a folder with exactly one file *{half}*.txt of triplets, "
                f"found {[p.name for p in matches]}"
            )
        day = options.first_day + timedelta(days=offset)
        parameters: dict[str, object] = {"day": day.isoformat()}
        select = load_sql("datasets/million_song.sql")
        files.append(RawFile(matches[0], select, other_lines="false", parameters=parameters))
    return Dataset(
        name="million-song",
        timezone="UTC",
        columns=ColumnSettings(weight="weight"),
        files=tuple(files),
        rules="visible half: training; hidden half: test; one declared day each; plays as weight",
        train_days=lambda day: day == options.first_day,
    )


def yandex(path: Path, options: ImportOptions) -> Dataset:
    """Yandex personalised web search (section 4.3): the session log (`train`, plain or .gz).

    Records, separated by tabs: `SessionID M Day UserID`; `SessionID TimePassed Q|T SERPID …`;
    `SessionID TimePassed C SERPID URLID`. Only clicks are events. URLs with at least five clicks
    are kept, then a seeded sample of a million users who clicked one of them. Days 1-14 are for
    training, 15-27 for test. Days carry no date: day 1 is declared.
    """
    if not path.is_file():
        raise DatasetError(f"{path} is not a file; give the session log")
    before_first = options.first_day - timedelta(days=1)
    raw = RawFile(
        path,
        load_sql("datasets/yandex.sql"),
        other_lines="regexp_matches(text, '^[0-9]+\\t(M|[0-9]+\\t[QT])\\t')",
        parameters={"before_first": before_first.isoformat()},
    )
    last_train = before_first + timedelta(days=_LAST_TRAIN_DAY)
    return Dataset(
        name="yandex",
        timezone="UTC",
        columns=ColumnSettings(),
        files=(raw,),
        rules=f"clicks on URLs with at least {options.min_clicks} clicks; a sample of "
        f"{options.sample_users} users, seed {options.seed}; days 1-14 train, 15-27 test",
        train_days=lambda day: day <= last_train,
        finish=partial(_select_clicks, options),
    )


def _select_clicks(options: ImportOptions, connection: Connection) -> None:
    """Remove rarely clicked URLs, then all but a sample of the users."""
    connection.execute(load_sql("datasets/yandex_rare.sql"), {"min_clicks": options.min_clicks})
    connection.execute(
        load_sql("datasets/yandex_sample.sql"),
        {"sample_users": options.sample_users, "seed": str(options.seed)},
    )
