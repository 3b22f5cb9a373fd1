"""What is guessed of a file of one's own, and that the import then reads what was shown."""

import csv
import gzip
import json

import duckdb
import pytest

from mom_pipeline.datasets.guessing import guess_files, own_files
from mom_pipeline.datasets.importing import import_dataset
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.readers import fitting_formats
from mom_pipeline_tests.data_folder import DataFolder

DAYS = [f"2010-12-{day:02d}" for day in range(1, 29)]


def lines(pattern, days=DAYS):
    """One line per day; y, m and d are the parts of the day."""
    parts = (day.split("-") for day in days)
    return [pattern.format(n=n, y=y, m=m, d=d) for n, (y, m, d) in enumerate(parts)]


def write(path, content, encoding="utf-8"):
    path.write_bytes("".join(f"{line}\n" for line in content).encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (  # an export of orders: what is of the order stands on its first line alone
            "orders_export.csv",
            [
                "No,Email,Billing Name,Created at,Lineitem quantity,Lineitem name,Lineitem sku,Id",
                *lines("#{n},a{n}@b.org,A B,{y}-{m}-{d} 10:22:33 +0100,1,Mug,S{n},5{n}"),
                *lines("#{n},a{n}@b.org,,{y}-{m}-{d} 10:22:33 +0100,2,Bowl,T{n},") * 2,
            ],
            ("Email", "Lineitem sku", "Created at", "iso", "Lineitem quantity", "Lineitem name"),
        ),
        (  # an event log: who is logged in has a user_id too
            "events.csv",
            [
                "event_date,event_timestamp,user_id,user_pseudo_id,item_id",
                *lines("{y}{m}{d},12912{n:02d}000123456,,{n}.17,P{n}"),
                "20101228,1291228000123456,m1,1.17,P1",
            ],
            ("user_pseudo_id", "item_id", "event_timestamp", "epoch_us", "", ""),
        ),
    ],
)
def test_columns_that_are_mostly_empty_are_not_meant(tmp_path, name, content, expected):
    options = guess_files([write(tmp_path / name, content)], {}).options
    names = (options.user, options.item, options.timestamp)
    guessed = (*names, options.timestamp_format, options.weight, options.item_name)
    assert guessed == expected


def test_day_and_month_are_told_apart_by_the_order_of_the_lines(tmp_path):
    """No day is beyond the twelfth, so both readings understand every line."""
    days = [f"2011-{month:02d}-{day:02d}" for month in (1, 2, 3) for day in (3, 7, 11)]
    for pattern, expected in (
        ("u,i,{d}/{m}/{y}", "%d/%m/%Y"),
        ("u,i,{m}/{d}/{y}", "%m/%d/%Y"),
    ):
        path = write(tmp_path / "days.csv", ["user,item,date", *lines(pattern, days)])
        assert guess_files([path], {}).options.timestamp_format == expected


def test_what_cannot_be_told_is_said(tmp_path):
    path = write(tmp_path / "one.csv", ["user,item,date", "u,i,02/02/2011"])
    (note,) = guess_files([path], {}).notes
    assert "alike; --timestamp-format decides" in note


def write_parquet(path):
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT n::DOUBLE AS user, 'i' || n AS product_id, '<b>' AS title, "
            "TIMESTAMP '2010-12-01 09:00:00' + to_days(n::INTEGER) AS time "
            f"FROM range(28) t(n)) TO '{path}' (FORMAT parquet)"
        )
    return path


def test_what_is_shown_is_what_is_imported(folder: DataFolder, tmp_path):
    """A whole number that became a float is written as it was."""
    guess = guess_files([write_parquet(tmp_path / "a.parquet")], {})
    assert guess.parsed_rows(5)[1] == ("1", "i1", "2010-12-02 09:00:00", "", "<b>")
    summary = import_dataset(own_files(guess), folder.settings)
    assert (summary.rows, summary.days) == (28, 28)
    text = gzip.decompress((folder.settings.logs_dir / "2010-12-02.csv.gz").read_bytes()).decode()
    assert text.splitlines()[1].startswith("1,i1,2010-12-02T09:00:00")


def test_what_lies_in_an_object_is_a_column(folder: DataFolder, tmp_path):
    rows = (
        {"ts": f"{day}T09:00:00Z", "user": {"id": n, "country": "DE"},
         "track": {"id": f"t{n}", "title": "<b>", "artist": {"name": "A"}, "tags": ["x"]}}
        for n, day in enumerate(DAYS)
    )  # fmt: skip
    guess = guess_files([write(tmp_path / "plays.jsonl", [json.dumps(row) for row in rows])], {})
    assert guess.parsed_rows(5)[1] == ("1", "t1", "2010-12-02 09:00:00", "", "<b>")
    assert import_dataset(own_files(guess), folder.settings).taken == 28
    text = gzip.decompress((folder.settings.logs_dir / "2010-12-02.csv.gz").read_bytes()).decode()
    assert text.splitlines()[1].startswith("1,t1,2010-12-02T09:00:00")


def test_what_is_no_event_is_set_aside(folder: DataFolder, tmp_path):
    content = [
        "user,item,date,qty",
        "u,i,2010-12-01,2",
        ",i,2010-12-01,1",
        "u,i,2010-12-01,0",
        "u,i,2010-12-02,-3",
        "u,j,2010-12-01,-3",
        "",
        "",
    ]
    path = write(tmp_path / "shop.csv", content)
    import_dataset(own_files(guess_files([path], {})), folder.settings)
    text = gzip.decompress((folder.settings.logs_dir / "2010-12-01.csv.gz").read_bytes()).decode()
    reasons = [row["exclude"] for row in csv.DictReader(text.splitlines())]
    assert reasons == ["", "no user", "quantity 0", "return of what was not taken before"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["price,date", "3,2010-12-01"], "like the user or the item.*--user and it with --item"),
        (["user,item,when", "u,i,soon", "v,j,then"], "times of column 'when' are in no known"),
        (["user,item,date"], "no row"),
    ],
)
def test_a_file_that_cannot_be_told_says_what_to_give(tmp_path, content, message):
    with pytest.raises(DatasetError, match=message):
        guess_files([write(tmp_path / "odd.csv", content)], {})


def test_rows_without_a_user_are_named_before_the_import(tmp_path):
    path = write(
        tmp_path / "shop.csv", ["user,item,date", "u,i,2010-12-01", *lines(",i,{y}-{m}-{d}")]
    )
    (note,) = guess_files([path], {}).notes
    assert note.startswith("97% of the rows have no user")


def test_a_wrong_time_format_is_named_with_the_one_that_fits(folder: DataFolder, tmp_path):
    path = write(tmp_path / "days.csv", ["user,item,date", *lines("u,i,{d}.{m}.{y}")])
    guess = guess_files([path], {"timestamp_format": "iso"})
    with pytest.raises(DatasetError, match=r"--timestamp-format '%d.%m.%Y' would read them"):
        import_dataset(own_files(guess), folder.settings)


@pytest.mark.parametrize("values", [[], ["", ""], ["soon", "later"], ["12", "13"]])
def test_no_format_fits_what_is_no_time(values):
    assert fitting_formats(values) == []
