"""Adapters on small files in exactly the published formats, and Online Retail on the real one."""

import gzip
import os
import tracemalloc
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.datasets.guessing import guess_files, own_files
from mom_pipeline.datasets.importing import (
    Dataset,
    ImportSummary,
    begin_again,
    day_of_import,
    import_dataset,
    is_imported_otherwise,
    read_summary,
)
from mom_pipeline.datasets.published import DATASETS
from mom_pipeline.erasure.log_lines import erase_lines, find_lines
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.ingest import IngestResult, ingest_files
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.settings import load_settings
from mom_pipeline.settings_file import declare_first_day
from mom_pipeline_tests.data_folder import DataFolder

ONLINE_RETAIL = Path(__file__).parents[2] / "../shared/data/online_retail.csv.gz"
BIG5 = "交易日期;會員卡號;年齡層;區域代碼;商品分類;商品原始ID;數量;成本;金額\r\n"
EVENTS = (
    "SELECT delivery_day::VARCHAR, event_time::VARCHAR, user_id, item_id, weight::DOUBLE "
    "FROM raw_logs ORDER BY delivery_day, line"
)


def dataset(name: str, path: Path, **options: Any) -> Dataset:
    return (
        own_files(guess_files([path], options))
        if name == "csv"
        else DATASETS[name](path, **options)
    )


def bring(
    folder: DataFolder, name: str, path: Path, every: int = 1, **options: Any
) -> ImportSummary:
    """Import a dataset and ingest what it wrote, with the settings that it wrote.

    every: 10 ingests each tenth file only.
    """
    summary = import_dataset(dataset(name, path, **options), folder.settings)
    folder.settings = load_settings(folder.settings.data_dir, {})
    files = discover(folder.settings.logs_dir).files
    results = list(ingest_files(folder.warehouse, files[::every]))
    assert all(isinstance(result, IngestResult) for result in results), results
    assert read_summary(folder.settings) == summary.without_examples
    return summary


# --- Published datasets ----------------------------------------------------------------------


def session(number: int, day: int, user: int, *urls: int) -> str:
    """A session of Yandex: its M record, a query, clicks, and another query."""
    serp = "\t".join(f"{url},5" for url in range(10))
    lines = [f"{number}\tM\t{day}\t{user}", f"{number}\t0\tQ\t0\t77\t1,2,3\t{serp}"]
    lines += [f"{number}\t{30 + n}\tC\t0\t{url}" for n, url in enumerate(urls)]
    lines += [f"{number}\t99\tT\t1\t78\t4\t{serp}"]
    return "".join(f"{line}\n" for line in lines)


# Files by name; "" for a dataset of one file.
TWEETS = {
    "ratings.dat": "1::0111161::10::1362062307\n2::0111161::9::1362148707\n"
    "2::0000008::5::1362148708\n",
    "movies.dat.gz": "0000008::Edison:: Kinetoscopic (1894)::Documentary|Short\n"
    "0111161::Amélie (1994)::\n",
}
RETAIL = {
    "": "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"
    '536365,85123A,"HOLDER, WHITE",6,12/1/2010 8:26,2.55,17850,United Kingdom\n'
    '536366,85123A,"HOLDER, WHITE",6,2010-12-01 09:26:00,2.55,17850,United Kingdom\n'
    "536367,85123A,?,6,12/13/2010 8:26,2.55,17850,United Kingdom\n"
    "C536368,POST,POSTAGE,-1,12/13/2010 8:26,2.55,17850,United Kingdom\n"
}
MONTHS = {
    "D11": f"{BIG5}2000-11-01 00:00:00;00046855  ;D ;E ;110411;4710085120468;3;51;57\r\n",
    "D12": f"{BIG5}2000-12-31 00:00:00;00539166  ;E ;E ;130315;4714981010038;2;56;48\r\n",
    "D01": f"{BIG5}2001-01-01 00:00:00;00046855  ;D ;E ;110411;4710085120468;1;17;19\r\n"
    "2001-01-01 00:00:00;01104905  ;C ;F ;110217;0000000000017;1;17;19\r\n",
    "D02": f"{BIG5}2001-02-28 00:00:00;00046855  ;D ;E ;110411;4710085120468;3;51;57\r\n",
}
MERGED = {
    "": "TRANSACTION_DT,CUSTOMER_ID,AGE_GROUP,PIN_CODE,PRODUCT_SUBCLASS,PRODUCT_ID,AMOUNT,ASSET,"
    "SALES_PRICE\n11/1/2000,01104905,45-49,115,110411,4710199010372,2,24,30\n"
    '"2/28/2001","01104905","45-49","115","110411","4710199010372",2,24,30\n'
}
TRIPLETS = {
    "year1_test_triplets_visible.txt": "fd50c4007b68\tSOBONKR12A58A7A7E0\t12\n"
    "fd50c4007b68\tSOEGIYH12A6D4FC0E3\t1\n",
    "year1_test_triplets_hidden.txt": "fd50c4007b68\tSOFLJQZ12A6D4FADA6\t3\n",
}
# URL 100 has six clicks by five users, URL 200 has four.
CLICKS = {
    "": "".join(session(n, n + 1, 50 + n, 100, 200) for n in range(4))
    + session(4, 14, 60, 100)
    + session(5, 15, 60, 100)
    + session(6, 27, 61)
}


def write_raw(root: Path, files: dict[str, str]) -> Path:
    """Write a dataset as it is published: one file, or a folder of them."""
    for name, text in files.items():
        path = root / "raw" / name if name else root / "raw"
        path.parent.mkdir(exist_ok=True)
        content = text.encode("big5" if text.startswith(BIG5) else "utf-8")
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return root / "raw"


@pytest.mark.parametrize(
    ("name", "files", "expected", "split", "lines"),
    [
        (
            "movietweetings",
            TWEETS,
            [
                ("2013-02-28", "2013-02-28 14:38:27+00", "1", "0111161", 1.0),
                ("2013-03-01", "2013-03-01 14:38:27+00", "2", "0111161", 1.0),
                ("2013-03-01", "2013-03-01 14:38:28+00", "2", "0000008", 1.0),
            ],
            ((), ()),
            (3, 0, 0),
        ),
        (
            "online-retail",
            RETAIL,
            [
                ("2010-12-01", "2010-12-01 08:26:00+00", "17850", "85123A", 1.0),
                ("2010-12-01", "2010-12-01 09:26:00+00", "17850", "85123A", 1.0),
                ("2010-12-13", "2010-12-13 08:26:00+00", "17850", "85123A", 1.0),
            ],
            ((), ()),
            (5, 1, 0),
        ),
        (
            "tafeng",
            MONTHS,
            [
                ("2000-11-01", "2000-11-01 00:00:00+08", "00046855", "4710085120468", 1.0),
                ("2000-12-31", "2000-12-31 00:00:00+08", "00539166", "4714981010038", 1.0),
                ("2001-01-01", "2001-01-01 00:00:00+08", "00046855", "4710085120468", 1.0),
                ("2001-01-01", "2001-01-01 00:00:00+08", "01104905", "0000000000017", 1.0),
                ("2001-02-28", "2001-02-28 00:00:00+08", "00046855", "4710085120468", 1.0),
            ],
            (("2000-11-01", "2001-01-01"), ("2000-12-31", "2001-02-28")),
            (9, 4, 0),
        ),
        (
            "tafeng",
            MERGED,
            [
                ("2000-11-01", "2000-11-01 00:00:00+08", "01104905", "4710199010372", 1.0),
                ("2001-02-28", "2001-02-28 00:00:00+08", "01104905", "4710199010372", 1.0),
            ],
            (("2000-11-01",), ("2001-02-28",)),
            (3, 1, 0),
        ),
        (
            "million-song",
            TRIPLETS,
            [
                (
                    "2012-01-01",
                    "2012-01-01 00:00:00+00",
                    "fd50c4007b68",
                    "SOBONKR12A58A7A7E0",
                    12.0,
                ),
                ("2012-01-01", "2012-01-01 00:00:00+00", "fd50c4007b68", "SOEGIYH12A6D4FC0E3", 1.0),
                ("2012-01-02", "2012-01-02 00:00:00+00", "fd50c4007b68", "SOFLJQZ12A6D4FADA6", 3.0),
            ],
            (("2012-01-01",), ("2012-01-02",)),
            (3, 0, 0),
        ),
        (
            "yandex",
            CLICKS,
            [
                (f"2012-01-{day}", f"2012-01-{day} 00:00:30+00", user, "100", 1.0)
                for day, user in zip(
                    ("01", "02", "03", "04", "14", "15"),
                    ("50", "51", "52", "53", "60", "60"),
                    strict=True,
                )
            ],
            (tuple(f"2012-01-{day}" for day in ("01", "02", "03", "04", "14")), ("2012-01-15",)),
            (31, 21, 4),
        ),
    ],
    ids=["movietweetings", "online-retail", "months", "merged", "million-song", "yandex"],
)
def test_an_adapter_brings_the_published_lines(
    folder: DataFolder,
    tmp_path: Path,
    name: str,
    files: dict[str, str],
    expected: list[tuple[object, ...]],
    split: tuple[tuple[str, ...], tuple[str, ...]],
    lines: tuple[int, int, int],
) -> None:
    summary = bring(folder, name, write_raw(tmp_path, files))
    assert folder.query(EVENTS) == expected
    assert (summary.lines, summary.lines_without_event, summary.lines_filtered) == lines
    days = (summary.train_days, summary.test_days)
    assert tuple(tuple(map(str, part)) for part in days) == split
    catalogue = Catalogue.open(folder.settings.data_dir)
    if files is TWEETS:
        assert catalogue.label("0000008") == "Edison:: Kinetoscopic (1894) (0000008)"
        assert catalogue.items["0000008"].groups == ("Documentary", "Short")
        assert catalogue.name("0111161") == "Amélie (1994)"
    if files is RETAIL:
        assert catalogue.name("85123A") == "HOLDER, WHITE"
        assert catalogue.name("POST") == "POSTAGE"


@pytest.mark.parametrize(
    ("name", "files", "bad", "line"),
    [
        ("movietweetings", TWEETS, ["1::2::3\n", "1::2::3::soon\n", "::2::3::1\n"], 4),
        (
            "million-song",
            TRIPLETS,
            ["u\ts\n", "u\ts\tx\n", "u\t\t3\n", "u\ts\t0\n", "a\x00\ts\t1\n"],
            3,
        ),
        ("yandex", CLICKS, ["9\t30\tC\t0\t100\n", "0\t30\tX\t0\t1\n", "junk\n"], 32),
    ],
)
def test_a_line_in_another_format_is_named(
    folder: DataFolder, tmp_path: Path, name: str, files: dict[str, str], bad: list[str], line: int
) -> None:
    first = next(iter(files))
    for one in bad:
        raw = write_raw(tmp_path, {**files, first: files[first] + one})
        with pytest.raises(DatasetError, match=rf"(?s)1 of .*malformed.*1 \(line {line}: "):
            import_dataset(dataset(name, raw), folder.settings)
    assert not list(folder.settings.logs_dir.iterdir())


def test_tafeng_needs_all_four_months(tmp_path: Path) -> None:
    raw = write_raw(tmp_path, MONTHS)
    (raw / "D12").unlink()
    with pytest.raises(DatasetError, match="exactly one file D12"):
        dataset("tafeng", raw)


def test_the_yandex_sample_is_seeded(
    new_folder: Callable[[str], DataFolder], tmp_path: Path
) -> None:
    raw = write_raw(tmp_path, CLICKS)
    samples = []
    for number, seed in enumerate([1, 1, 2, 3]):
        settings = new_folder(str(number)).settings
        import_dataset(dataset("yandex", raw, sample_users=2, seed=seed), settings)
        logs = [gzip.decompress(path.read_bytes()) for path in settings.logs_dir.iterdir()]
        users = {line.split(b",")[0] for text in logs for line in text.splitlines()[1:]}
        samples.append(tuple(sorted(users)))
    assert samples[0] == samples[1]
    assert all(len(sample) == 2 for sample in samples)
    assert len(set(samples)) > 1


# --- Any CSV ---------------------------------------------------------------------------------


def written(folder: Path, lines: str) -> Path:
    path = folder / "x.csv"
    path.write_text(f"user,item,timestamp\n{lines}")
    return path


def test_any_csv_by_column_names(folder: DataFolder, tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text('movieId;who;at;n\n0031;"a;b";1260759144;2.5\n1029;2;1260759144;1\n')
    bring(
        folder, "csv", path, user="who", item="movieId", timestamp="at", weight="n",
        timestamp_format="epoch_s", delimiter=";", timezone="Asia/Taipei",
    )  # fmt: skip
    assert folder.query(EVENTS) == [
        ("2009-12-14", "2009-12-14 10:52:24+08", "a;b", "0031", 2.5),
        ("2009-12-14", "2009-12-14 10:52:24+08", "2", "1029", 1.0),
    ]


def test_the_repeated_hour_of_the_end_of_summer_time_stays_two_hours(
    folder: DataFolder, tmp_path: Path
) -> None:
    path = written(tmp_path, "u,i,2023-10-29T00:30:00Z\nu,i,2023-10-29T01:30:00Z\n")
    bring(folder, "csv", path, timezone="Europe/Berlin")
    found = folder.query("SELECT epoch(event_time) FROM raw_logs ORDER BY line")
    assert found == [(1698539400.0,), (1698543000.0,)]


def test_csv_errors_say_what_to_do(folder: DataFolder, tmp_path: Path) -> None:
    path = written(tmp_path, "u,i,yesterday\n")
    with pytest.raises(DatasetError, match=r"timestamp not understood: 1 \(line 2: u,i,yesterday"):
        bring(folder, "csv", path, timestamp="timestamp", timestamp_format="iso")
    with pytest.raises(DatasetError, match="exactly one column 'who'"):
        bring(folder, "csv", path, user="who")


def test_a_few_bad_lines_are_set_aside_with_their_reasons(
    folder: DataFolder, tmp_path: Path
) -> None:
    """D3: they go to the logs of the days around them, and from there to the quarantine."""
    lines = [f"u{n % 50},i{n % 20},2024-03-0{1 + n // 300}" for n in range(600)]
    lines[10:10] = ["u1,i1,soon", 'u1,"i', "", "user,item,timestamp", "u1", "Zoë\x00,i,2024-03-01"]
    path = written(tmp_path, "".join(f"{line}\n" for line in [*lines, "", ""]))
    summary = bring(folder, "csv", path)
    assert (summary.lines, summary.lines_without_event, summary.taken) == (609, 5, 600)
    assert {part.reason: (part.n, part.examples) for part in summary.rest} == {
        "timestamp not understood": (1, ("line 12: u1,i1,soon",)),
        "unbalanced quote": (1, ('line 13: u1,"i',)),
        "expected 3 fields, found 1": (1, ("line 16: u1",)),
        "control character": (1, (r"line 17: Zoë\x00,i,2024-03-01",)),
    }
    kept = folder.query("SELECT delivery_day::VARCHAR, reason FROM quarantine ORDER BY ALL")
    assert kept == [
        ("2024-03-01", f"set aside: {reason}")
        for reason in sorted(part.reason for part in summary.rest)
    ]
    assert folder.query("SELECT count(*) FROM raw_logs") == [(600,)]
    text = (folder.settings.data_dir / "dataset.json").read_text(encoding="utf-8")
    assert "Zoë" not in text


def test_too_many_bad_lines_are_all_named_with_what_mends_them(
    folder: DataFolder, tmp_path: Path
) -> None:
    path = written(tmp_path, "u,i,2024-03-01\n" * 30 + "u,i,13.3.2024\n" * 4 + "u\n" * 2)
    with pytest.raises(DatasetError, match="6 of 36 lines are malformed") as refused:
        bring(folder, "csv", path, timestamp="timestamp")
    for words in (
        "understood: 4",
        "--timestamp-format",
        "found 1: 2",
        "--delimiter",
        "REJECT_SHARE=0.17",
    ):
        assert words in str(refused.value)
    assert not list(folder.settings.logs_dir.iterdir())


def test_erasure_finds_the_lines_that_an_import_set_aside(
    folder: DataFolder, tmp_path: Path
) -> None:
    good = "".join(f"u{n % 9},i,2024-03-01\n" for n in range(200))
    bring(folder, "csv", written(tmp_path, good + "Zed,i,soon\n"))
    own = find_lines(folder.warehouse, ["Zed"])
    erase_lines(folder.warehouse, own, ["Zed"])
    log = gzip.decompress((folder.settings.logs_dir / "2024-03-01.csv.gz").read_bytes())
    assert b"Zed" not in log
    assert log.count(b"\n") == 201


@pytest.mark.parametrize("ms", ["999999999999999", "7258118400000", "-86400001"])
def test_a_day_that_no_log_file_can_have_is_refused(
    folder: DataFolder, tmp_path: Path, ms: str
) -> None:
    path = written(tmp_path, f"u,i,1709287200123\nu,i,{ms}\n")
    with pytest.raises(DatasetError, match="expected events from 1970-01-01 to 2199"):
        bring(folder, "csv", path, timestamp="timestamp", timestamp_format="epoch_ms")
    assert not list(folder.settings.logs_dir.iterdir())


def test_a_time_that_was_cut_short_is_no_first_day(folder: DataFolder, tmp_path: Path) -> None:
    path = written(tmp_path, "u,i,1390209882\nu,i,1390296282\nu,i,13")
    summary = bring(folder, "csv", path, timestamp="timestamp", timestamp_format="epoch_s")
    assert summary.first_day == date(1970, 1, 1)
    assert folder.settings.pipeline.start_date == "2014-01-20"


def test_a_last_line_without_end_is_taken_and_the_logs_end_with_one(
    folder: DataFolder, tmp_path: Path
) -> None:
    path = written(tmp_path, "u,i,2024-03-01T23:59:59\nv,i,2024-03-02")
    assert bring(folder, "csv", path).files_without_end == ("x.csv",)
    assert [row[0] for row in folder.query(EVENTS)] == ["2024-03-01", "2024-03-02"]
    for log in folder.settings.logs_dir.iterdir():
        assert gzip.decompress(log.read_bytes()).endswith(b"\n")
    written(tmp_path, "u,i,2024-03-01\n")
    assert bring(folder, "csv", path).files_without_end == ()


def test_two_sources_in_one_folder_are_refused(folder: DataFolder, tmp_path: Path) -> None:
    path = written(tmp_path, "u,i,2024-03-01\n")
    folder.write("2023-01-01.csv", "user,item,timestamp\n")
    with pytest.raises(DatasetError, match="already holds 1 log files"):
        bring(folder, "csv", path)


@pytest.mark.parametrize("has_folder", [True, False])
def test_an_import_that_was_killed_begins_again(
    folder: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_folder: bool
) -> None:
    """R4: killed while its days were put in place; without a folder that is one step."""
    logs = folder.settings.logs_dir
    path = written(tmp_path, "".join(f"u,i,2024-03-0{d}\n" for d in range(1, 6)))
    if not has_folder:
        logs.rmdir()
    put = []

    def killed(source: Path, target: Path) -> None:
        put.append(target)
        if target == logs or [path.parent for path in put].count(logs) > 2:
            raise KeyboardInterrupt
        os.replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace" if has_folder else "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            import_dataset(dataset("csv", path), folder.settings)
    assert len(discover(logs).files) == 2 * has_folder
    folder.settings = load_settings(folder.settings.data_dir, {})
    assert bring(folder, "csv", path).days == len(discover(logs).files) == 5


def test_an_import_with_other_options_begins_again(folder: DataFolder, tmp_path: Path) -> None:
    """D13: what was made goes, what a person wrote stays; one that was killed begins again."""
    path = tmp_path / "x.csv"
    path.write_text("user,item,type,time\nu,i,view,2024-03-01\nu,i,buy,2024-03-02\n")
    bring(folder, "csv", path, event="", weight="")
    settings = folder.settings.data_dir / "pipeline.toml"
    settings.write_text(settings.read_text() + "\n[serving]\nlist_length = 7\n")
    chosen = dataset("csv", path, timezone="Asia/Taipei", event="type")
    assert not is_imported_otherwise(dataset("csv", path, event="", weight=""), folder.settings)
    assert is_imported_otherwise(chosen, folder.settings)
    with pytest.raises(DatasetError, match="does not fit"):
        import_dataset(chosen, folder.settings)
    begin_again(chosen, folder.settings)
    assert not folder.settings.warehouse_path.exists()
    folder.settings = load_settings(folder.settings.data_dir, {})
    bring(folder, "csv", path, timezone="Asia/Taipei", event="type")
    assert folder.settings.serving.list_length == 7
    assert dict(folder.settings.logs.event_weights).keys() == {"buy", "view"}
    assert folder.settings.pipeline.start_date == "2024-03-01"


def test_rows_without_times_are_of_one_day(folder: DataFolder, tmp_path: Path) -> None:
    """That of the import, also when the same file is imported again on a later day."""
    path = tmp_path / "pairs.csv"
    path.write_text("user,item\n" + "".join(f"u{n % 9},i{n % 7}\n" for n in range(60)))
    chosen, day = guess_files([path], {}), date(2024, 3, 5)
    import_dataset(own_files(chosen, day), folder.settings)
    folder.settings = load_settings(folder.settings.data_dir, {})
    assert day_of_import(folder.settings) == day
    folder.write("2024-03-01.csv", "user,item,timestamp,exclude\na,b,2024-03-01,\n")
    list(ingest_files(folder.warehouse, discover(folder.settings.logs_dir).files))
    days = [file.day for file in discover(folder.settings.logs_dir).files]
    assert declare_first_day(folder.settings, days).pipeline.start_date == "2024-03-01"
    assert folder.query("SELECT count(*), max(event_time)::DATE::VARCHAR FROM raw_logs") == [
        (61, "2024-03-05")
    ]


def test_settings_that_do_not_fit_are_refused(folder: DataFolder, tmp_path: Path) -> None:
    path = written(tmp_path, "u,i,2024-03-01\n")
    (folder.settings.data_dir / "pipeline.toml").write_text('[logs]\ntimezone = "Asia/Taipei"\n')
    folder.settings = load_settings(folder.settings.data_dir, {})
    with pytest.raises(DatasetError, match='timezone = "UTC"'):
        bring(folder, "csv", path)


def test_an_import_again_writes_the_same_bytes(folder: DataFolder, tmp_path: Path) -> None:
    path = written(tmp_path, "".join(f"u{n},i,2024-03-01\n" for n in range(999)))
    bring(folder, "csv", path)
    first = (folder.settings.logs_dir / "2024-03-01.csv.gz").read_bytes()
    bring(folder, "csv", path)
    assert (folder.settings.logs_dir / "2024-03-01.csv.gz").read_bytes() == first


def test_python_memory_does_not_grow_with_the_file(
    new_folder: Callable[[str], DataFolder], tmp_path: Path
) -> None:
    """Five times the lines, no more Python memory (DuckDB's own is bounded by its limit)."""
    peaks = []
    for size in (100_000, 500_000):  # the first already fills every buffer
        path = tmp_path / f"{size}.csv"
        path.write_bytes(b"user,item,timestamp\n" + b"user,item,2024-03-01\n" * size)
        folder = new_folder(str(size))
        chosen = dataset("csv", path)
        tracemalloc.start()
        import_dataset(chosen, folder.settings)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


# --- Online Retail ---------------------------------------------------------------------------


@pytest.mark.skipif(not ONLINE_RETAIL.exists(), reason=f"{ONLINE_RETAIL} is not on this machine")
def test_online_retail_equals_an_independent_count(folder: DataFolder) -> None:
    """Every line of the file in the logs that were written; each tenth day in the warehouse."""
    summary = bring(folder, "online-retail", ONLINE_RETAIL, every=10)
    with gzip.open(ONLINE_RETAIL, "rt", encoding="utf-8") as source:
        frame = pd.read_csv(source, dtype=str, keep_default_na=False)
    frame["day"] = frame["InvoiceDate"].str[:10]
    frame["reason"] = ""
    frame.loc[frame["InvoiceNo"].str.startswith("C"), "reason"] = "cancellation"
    frame.loc[frame["CustomerID"] == "", "reason"] = "no customer"
    assert (frame.loc[frame["reason"] == "", "Quantity"].astype(int) > 0).all()
    assert (summary.rows, summary.days) == (len(frame), frame["day"].nunique())
    assert (summary.rows, summary.days) == (541_909, 305)

    paths = sorted(folder.settings.logs_dir.glob("*.csv.gz"))
    logs = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths]
    written = pd.concat(logs, keys=[path.name[:10] for path in paths], names=["day"])
    written = written.reset_index("day").rename(columns={"exclude": "reason"})
    wanted = frame.rename(columns={"CustomerID": "user", "StockCode": "item"})
    for columns in (["day", "reason"], ["user"], ["item"]):
        assert written.value_counts(columns).to_dict() == wanted.value_counts(columns).to_dict()

    some = frame[frame["day"].isin([path.name[:10] for path in paths[::10]])]
    taken = some[some["reason"] == ""]
    ledger = "SELECT delivery_day::VARCHAR, lines - header_lines, rows_accepted FROM ingest_ledger"
    by_day = pd.DataFrame({"all": some["day"].value_counts(), "taken": taken["day"].value_counts()})
    by_day = by_day.fillna(0).astype(int).sort_index()
    expected = [(day, int(row["all"]), int(row["taken"])) for day, row in by_day.iterrows()]
    assert sorted(folder.query(ledger)) == expected
    assert len(expected) == 31
    reasons = folder.query("SELECT reason, count(*) FROM quarantine GROUP BY reason")
    set_aside = some.loc[some["reason"] != "", "reason"].value_counts()
    assert dict(reasons) == {f"set aside: {reason}": n for reason, n in set_aside.items()}  # type: ignore[arg-type]
    counts = folder.query("SELECT count(DISTINCT user_id), count(DISTINCT item_id) FROM raw_logs")
    assert counts == [(taken["CustomerID"].nunique(), taken["StockCode"].nunique())]
