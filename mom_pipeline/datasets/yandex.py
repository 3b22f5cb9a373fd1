"""Yandex personalised web search (paper, section 4.3): clicks of session logs.

Records, separated by tabs: `SessionID M Day UserID`; `SessionID TimePassed Q|T SERPID …`;
`SessionID TimePassed C SERPID URLID`. Only clicks are events. URLs with at least five clicks
are kept, then a seeded sample of a million users who clicked one of them. Days 1-14 are for
training, 15-27 for test. Days carry no date: day 1 is declared.
"""

from datetime import timedelta
from pathlib import Path

from mom_pipeline.datasets.importing import Dataset, RawFile
from mom_pipeline.datasets.options import ImportOptions
from mom_pipeline.errors import DatasetError
from mom_pipeline.settings import ColumnSettings
from mom_pipeline.warehouse.connection import Connection, load_sql

NAME = "yandex"
LAST_TRAIN_DAY = 14


def dataset(path: Path, options: ImportOptions) -> Dataset:
    """The adapter for the session log (`train`, plain or .gz)."""
    if not path.is_file():
        raise DatasetError(f"{path} is not a file; give the session log")
    before_first = options.first_day - timedelta(days=1)
    raw = RawFile(
        path,
        load_sql("datasets/yandex.sql"),
        other_lines="regexp_matches(text, '^[0-9]+\\t(M|[0-9]+\\t[QT])\\t')",
        parameters={"before_first": before_first.isoformat()},
    )
    last_train = before_first + timedelta(days=LAST_TRAIN_DAY)

    def keep_paper_selection(connection: Connection) -> None:
        connection.execute(load_sql("datasets/yandex_rare.sql"), {"min_clicks": options.min_clicks})
        connection.execute(
            load_sql("datasets/yandex_sample.sql"),
            {"sample_users": options.sample_users, "seed": str(options.seed)},
        )

    return Dataset(
        name=NAME,
        timezone="UTC",
        columns=ColumnSettings(),
        files=(raw,),
        rules=f"clicks on URLs with at least {options.min_clicks} clicks; a sample of "
        f"{options.sample_users} users, seed {options.seed}; days 1-14 train, 15-27 test",
        train_days=lambda day: day <= last_train,
        finish=keep_paper_selection,
    )
