"""Formats and bad lines: nothing lost, nothing silently wrong. One test per known trap."""

import gzip
import hashlib
from datetime import datetime, timedelta

import duckdb
import pytest

from mom_pipeline.core.interactions import MAX_ID
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.scan import MAX_LINE_BYTES
from mom_pipeline_tests.data_folder import HEADER, DataFolder

T = "2024-03-01T10:00:00"


def parquet(folder: DataFolder, select: str, name: str = "day=2024-03-01/part.parquet") -> None:
    path = folder.settings.logs_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")


def times(folder: DataFolder) -> list[object]:
    rows = folder.query("SELECT epoch_us(event_time) FROM raw_logs ORDER BY source_file, line")
    return [row[0] for row in rows]


# --- Formats ---------------------------------------------------------------------------------


def test_every_format_gives_the_same_events(folder: DataFolder) -> None:
    csv = f"{HEADER}u1,i1,{T}\nu2,é2,{T}\n"
    jsonl = "".join(
        f'{{"user": "{u}", "item": "{i}", "timestamp": "{T}"}}\n'
        for u, i in [("u1", "i1"), ("u2", "é2")]
    )
    folder.take(csv, "2024-03-01.csv")
    folder.take(gzip.compress(csv.encode()), "2024-03-02.csv.gz")
    folder.take(csv.replace(",", "\t"), "2024-03-03.tsv")
    folder.take(jsonl, "2024-03-04.jsonl")
    parquet(
        folder,
        f"""SELECT 'u1' AS "user", 'i1' AS item, TIMESTAMP '{T}' AS timestamp
            UNION ALL SELECT 'u2', 'é2', TIMESTAMP '{T}'""",
        "day=2024-03-05/part.parquet",
    )
    folder.ingest("day=2024-03-05/part.parquet")
    assert folder.ids() == [("u1", "i1"), ("u2", "é2")] * 5
    assert set(times(folder)) == {1709287200000000}
    lines = folder.query("SELECT list(line ORDER BY line) FROM raw_logs GROUP BY source_file")
    assert sorted(lines) == [([1, 2],), ([1, 2],), ([2, 3],), ([2, 3],), ([2, 3],)]


def test_ids_are_kept_exact(folder: DataFolder) -> None:
    ids = ["007", "18446744073709551616", "1.0", "1e5", " a ", "naïve 東京 🎁", "NULL", "nan"]
    ids.append("é" * MAX_ID)
    folder.take(HEADER + "".join(f"{i},{i},{T}\n" for i in ids))
    assert folder.ids() == [(i, i) for i in ids]


def test_json_numbers_are_kept_digit_by_digit(lenient: DataFolder) -> None:
    values = ['"007"', "18446744073709551616", "12345678901234567890123", "-5", "1.0", "1e5"]
    values += ["true", "[1]", "NaN"]
    lenient.take(
        "".join(f'{{"user": {v}, "item": "i", "timestamp": "{T}"}}\n' for v in values),
        "2024-03-01.jsonl",
    )
    kept = ["007", "18446744073709551616", "12345678901234567890123", "-5"]
    assert lenient.ids() == [(k, "i") for k in kept]
    assert [line for line, _ in lenient.reasons()] == [5, 6, 7, 8, 9]


def test_quotes_follow_rfc_4180_and_are_ordinary_characters_in_tsv(lenient: DataFolder) -> None:
    lenient.take(f'"user",item,timestamp\n"a,b","say ""hi""",{T}\n"""","é",{T}\n"",i,{T}\n')
    lenient.take(f'user\titem\ttimestamp\n"a\tb"c\t{T}\n', "2024-03-02.tsv")
    assert lenient.ids() == [("a,b", 'say "hi"'), ('"', "é"), ('"a', 'b"c')]
    assert lenient.reasons() == [(4, "no user")]


def test_a_record_in_quotes_goes_on_over_line_ends(lenient: DataFolder) -> None:
    """RFC 4180; physical lines keep their numbers, and blank lines are no lines."""
    lenient.with_columns(exclude="note")
    result = lenient.take(
        f'user,item,timestamp,note,more\r\n\r\na,i,{T},,"one\r\n\r\ntwo, ""three""\r\n"\r\n'
        f',,,,\r\nuser,item,timestamp,note,more\r\nb,i,{T},,"x"\r\nc,i,{T},,"5" disk\r\n'
        f'd,i,{T},"out\r\nof order",\r\n'
    )
    assert lenient.query("SELECT user_id, line FROM raw_logs") == [("a", 3), ("b", 9)]
    assert lenient.reasons() == [(10, "unbalanced quote"), (11, "set aside: out\nof order")]
    assert (result.lines, result.header_lines) == (12, 8)


def test_ragged_ends(lenient: DataFolder) -> None:
    """Empty fields too many are none; fields behind those that are read may be missing."""
    lenient.take(f"user,item,timestamp,a,b\nu,i,{T},1,2,,\nv,i,{T},1\nw,i,{T}\nx,i,{T},1,2,3\n")
    assert lenient.ids() == [("u", "i"), ("v", "i")]
    assert [line for line, _ in lenient.reasons()] == [4, 5]


def test_another_delimiter(folder: DataFolder) -> None:
    folder.with_logs(delimiter=";").take(f'user;item;timestamp\na,b;"c;d";{T}\n')
    assert folder.ids() == [("a,b", "c;d")]


def test_columns_are_found_by_name_wherever_they_stand(folder: DataFolder) -> None:
    folder.with_columns(user="customer", item="sku", timestamp="at", weight="n")
    folder.take(f"n,at,other,sku,customer\n2.5,{T},x,s1,c1\n")
    assert folder.query("SELECT user_id, item_id, weight::VARCHAR FROM raw_logs") == [
        ("c1", "s1", "2.500000")
    ]


def test_a_byte_order_mark_and_windows_line_ends(folder: DataFolder) -> None:
    folder.take(f"\ufeffuser,item,timestamp\r\nu1,i1,{T}\r\n")
    assert folder.ids() == [("u1", "i1")]


def test_a_path_is_data_and_never_a_pattern(folder: DataFolder) -> None:
    names = ["2024-03-02.a[1].csv", "2024-03-03.*.csv", "2024-03-04.it's.csv"]
    for name in (*names, "2024-03-02.a1.csv", "2024-03-03.x.csv"):
        folder.write(name, f"{HEADER}{name},i,{T}\n")
    for name in ("a[1]", "a1"):
        select = f"""SELECT '{name}' AS "user", 'i' AS item, '{T}' AS timestamp"""
        parquet(folder, select, f"day=2024-03-05/{name}.parquet")
    for name in (*names, "day=2024-03-05/a[1].parquet"):
        folder.ingest(name)
    assert [user for user, _ in folder.ids()] == [*names, "a[1]"]


# --- Time ------------------------------------------------------------------------------------


def test_offsets_are_kept_and_bare_times_are_in_the_declared_zone(folder: DataFolder) -> None:
    folder.with_logs(timezone="Asia/Taipei")
    folder.take(
        f"{HEADER}a,i,2024-03-01T10:00:00+08:00\nb,i,2024-03-01 10:00:00\n"
        "c,i,2024-03-01T02:00:00Z\nd,i,2024-03-01 10:00\n"
    )
    assert times(folder) == [1709258400000000] * 4


@pytest.mark.parametrize(
    ("setting", "text", "expected"),
    [
        ("epoch_s", "1709287200", 1709287200000000),
        ("epoch_s", "1709287200.25", 1709287200250000),
        ("epoch_ms", "1709287200123", 1709287200123000),
        ("epoch_us", "1709287200123456", 1709287200123456),
        ("excel", "45352.41667", 1709287200000000),
        ("excel", "45352", 1709251200000000),
        ("%d/%m/%Y %H:%M", "01/03/2024 10:00", 1709287200000000),
        ("%d.%m.%Y %I:%M %p", "1.3.2024 10:00 AM", 1709287200000000),
        ("%d.%m.%Y %H:%M %Z", "01.03.2024 10:00 UTC", 1709287200000000),
        ("%Y-%m-%d %H:%M%z", "2024-03-01 15:30+0530", 1709287200000000),
    ],
)
def test_other_timestamp_formats(
    folder: DataFolder, setting: str, text: str, expected: int
) -> None:
    folder.with_logs(timestamp_format=setting).take(f"{HEADER}a,i,{text}\n")
    assert times(folder) == [expected]


def test_iso_8601_in_all_its_forms(folder: DataFolder) -> None:
    at_ten = {
        "2024-03-01 10:00": 0,
        "2024-03-01T10:00Z": 0,
        "2024-03-01T10:00:00.123456789": 123456,
        "2024-03-01T15:30:00.5+05:30": 500_000,
        "2024-03-01T15:30:00+0530": 0,
        "2024-03-01T08:00:00-02": 0,
        "2024-02-29T18:01:00-15:59": 0,
        "2024-03-01 10:00:00 UTC": 0,
        "2024-03-01 12:00:00 +02:00": 0,
    }
    folder.take(HEADER + "".join(f"a,i,{text}\n" for text in [*at_ten, "2024-03-01"]))
    expected = [1709287200000000 + after for after in at_ten.values()]
    assert times(folder) == [*expected, 1709251200000000]


NO_TIMES = ["epoch", "infinity", "now", "nan", "2024-02-30", "x", "1e99", "99999999999999999999"]


@pytest.mark.parametrize(
    ("setting", "texts"),
    [
        (
            "iso",
            [
                "2024-03-01T10:00:00+99:00",
                "2024-03-01T10:00:00+16:00",
                "2024-03-01T10:00:00+05:60",
                "2024-02-29T24:00:00",
                "2024-03-01T10:00:60",
                "2024-03-01T1:00:00",
                "2024/03/01",
                "2024-3-1",
                "20240301",
                "2024-03-01 10:00:00 CET",
                "2024-03-01T10:00:00z",
                " 2024-03-01",
                "2024-03-01 (BC)",
                "２０２４-03-01",
            ],
        ),
        ("epoch_s", ["1_709_287_200", "0x65e19c20", "1709287200000"]),
        ("epoch_ms", ["1_709_287_200_000", "99999999999999999"]),
        ("epoch_us", ["1_709_287_200_000_000", "1709287200.25", "99999999999999999999"]),
        ("%d/%m/%Y", []),
        ("%Y-%m-%d %H:%M:%S%z", ["2024-03-01 10:00:00+99:00", "2024-02-29 24:00:00+00:00"]),
    ],
)
def test_a_time_in_another_form_is_rejected(
    lenient: DataFolder, setting: str, texts: list[str]
) -> None:
    lenient.with_logs(timestamp_format=setting)
    result = lenient.take(HEADER + "".join(f"a,i,{text}\n" for text in texts + NO_TIMES))
    assert result.reject_reasons == {"timestamp not understood": len(texts + NO_TIMES)}
    assert result.rows_accepted == 0


@pytest.mark.parametrize(
    ("zone", "last", "after"),
    [
        ("UTC", "2024-03-01T23:59:59.999999", "2024-03-02"),
        ("UTC", "2024-03-02T00:59:59+01:00", "2199-01-01T00:00:00"),
        ("Asia/Taipei", "2024-03-01T15:59:59Z", "2024-03-01T16:00:00Z"),
        ("America/New_York", "2024-03-02T04:59:59Z", "2024-03-02T05:00:00Z"),
    ],
)
def test_an_event_after_the_delivery_day_is_rejected(
    lenient: DataFolder, zone: str, last: str, after: str
) -> None:
    """The day ends at midnight in the zone of the logs; events of earlier days come late."""
    lenient.with_logs(timezone=zone)
    lenient.take(f"{HEADER}early,i,2023-01-01\nlast,i,{last}\nafter,i,{after}\n")
    assert lenient.ids() == [("early", "i"), ("last", "i")]
    assert lenient.reasons() == [(4, "event after the delivery day")]


@pytest.mark.parametrize(
    ("zone", "day", "end"),
    [
        ("America/Sao_Paulo", "2018-11-03", "2018-11-04T03:00:00Z"),  # there is no midnight
        ("America/Havana", "2023-11-04", "2023-11-05T04:00:00Z"),  # midnight comes twice
        ("Europe/Berlin", "2023-10-29", "2023-10-29T23:00:00Z"),  # a day of 25 hours
    ],
)
def test_a_day_ends_at_its_first_midnight_when_clocks_change(
    lenient: DataFolder, zone: str, day: str, end: str
) -> None:
    before = (datetime.fromisoformat(end) - timedelta(seconds=1)).isoformat()
    lenient.with_logs(timezone=zone)
    lenient.take(f"{HEADER}last,i,{before}\nafter,i,{end}\n", f"{day}.csv")
    assert lenient.ids() == [("last", "i")]
    assert lenient.reasons() == [(3, "event after the delivery day")]


# --- Bad lines -------------------------------------------------------------------------------


BAD_CSV = [
    (b",i,2024-03-01", "no user"),
    (b"u,,2024-03-01", "no item"),
    (b"u,i,", "no timestamp"),
    (b"u,i,yesterday", "timestamp not understood"),
    (b"u,i,0001-01-01", "timestamp out of range"),
    (b"u,i", "expected 3 fields, found 2"),
    (b"u,i,2024-03-01,x", "expected 3 fields, found 4"),
    (b'"u,i,2024-03-01', "unbalanced quote"),
    (b'u"x,i,2024-03-01', "unbalanced quote"),
    (b"u\x00,i,2024-03-01", "control character"),
    (b"u\r,i,2024-03-01", "control character"),
    (b"u\x1f,i,2024-03-01", "control character"),
    (b"\xff\xfe,i,2024-03-01", "not UTF-8"),
    (b"u" * (MAX_ID + 1) + b",i,2024-03-01", "user is too long"),
    (b"u," + "é".encode() * (MAX_ID + 1) + b",2024-03-01", "item is too long"),
    (b"u,i,2199-03-01", "event after the delivery day"),
    (b"u" * (MAX_LINE_BYTES + 1) + b",i,2024-03-01", "line is too long"),
]
BAD_JSON = [
    ('{"user": "u"', "not a JSON object"),
    ("[1, 2]", "not a JSON object"),
    ("null", "not a JSON object"),
    ("{}", "no user"),
    ('{"user": null, "item": "i", "timestamp": "2024-03-01"}', "no user"),
    ('{"user": "u", "item": "i"}', "no timestamp"),
    ('{"user": "a\\u0000b", "item": "i", "timestamp": "2024-03-01"}', "control character"),
    (
        '{"user": "a", "item": "i", "timestamp": "2024-03-01", "user": "b"}',
        "a key is given twice",
    ),
    (
        '{"user": "a", "item": "i", "timestamp": "2024-03-01", "\\u0069tem": "j"}',
        "a key is given twice",
    ),
    ('{"user": "a", "user": "b", "item": "i"}', "no timestamp"),
    (f'{{"user": "{"u" * 4097}", "item": "i", "timestamp": "2024-03-01"}}', "user is too long"),
    ('{"user": "a\\nb", "item": "i", "timestamp": "2024-03-01"}', "control character"),
]


@pytest.mark.parametrize(
    ("name", "begin", "good", "bad"),
    [
        ("2024-03-01.csv", HEADER.encode(), b"a,i,2024-03-01\n", BAD_CSV),
        (
            "2024-03-01.jsonl",
            b"",
            b'{"user": "a", "item": "i", "timestamp": "2024-03-01"}\n',
            [(line.encode(), reason) for line, reason in BAD_JSON],
        ),
    ],
)
def test_a_bad_line_is_one_reject_and_its_neighbours_stay(
    lenient: DataFolder, name: str, begin: bytes, good: bytes, bad: list[tuple[bytes, str]]
) -> None:
    result = lenient.take(begin + b"".join(good + line + b"\n" for line, _ in bad) + good, name)
    assert lenient.ids() == [("a", "i")] * (len(bad) + 1)
    first = 2 + begin.count(b"\n")
    assert lenient.reasons() == [(first + 2 * n, reason) for n, (_, reason) in enumerate(bad)]
    assert result.lines == begin.count(b"\n") + result.rows_accepted + result.rows_rejected


def test_other_keys_of_a_json_object_do_not_matter(folder: DataFolder) -> None:
    folder.with_columns(exclude="note")
    event = f'"user": "a", "item": "i", "timestamp": "{T}"'
    folder.take(
        f'{{{event}, "x": 1, "x": 2}}\n{{"in": {{"user": 1}}, "note": "", {event}}}\n'
        f'{{{event}, "note": "cancelled"}}\n',
        "2024-03-01.jsonl",
    )
    assert folder.ids() == [("a", "i")] * 2
    assert folder.reasons() == [(3, "set aside: cancelled")]


def test_a_key_given_twice_is_seen_beside_optional_keys(lenient: DataFolder) -> None:
    lenient.with_columns(exclude="note", weight="n")
    event = f'"user": "a", "item": "i", "timestamp": "{T}"'
    lenient.take(
        f'{{{event}, "n": 1, "n": 2}}\n{{{event}, "n": 1, "note": "", "note": ""}}\n'
        f'{{{event}, "n": 1, "note": ""}}\n',
        "2024-03-01.jsonl",
    )
    assert lenient.reasons() == [(1, "a key is given twice"), (2, "a key is given twice")]


WEIGHTED = "user,item,timestamp,weight\n"


def test_a_weight_is_kept_to_six_decimals(folder: DataFolder) -> None:
    kept = {
        "1e3": "1000.000000",
        "+2.5E-1": "0.250000",
        ".5": "0.500000",
        "3.": "3.000000",
        "0.30000000000000004": "0.300000",
        "1000000000": "1000000000.000000",
    }
    folder.with_columns(weight="weight")
    folder.take(WEIGHTED + "".join(f"a,i,{T},{weight}\n" for weight in kept))
    rows = folder.query("SELECT weight::VARCHAR FROM raw_logs ORDER BY line")
    assert rows == [(weight,) for weight in kept.values()]


def test_a_bad_weight_is_rejected(lenient: DataFolder) -> None:
    bad = ["nan", "inf", "-inf", "NaN", "", "x", "1e300", "1_000", "1e11", "-1e11"]
    bad += ["999999999999", "1000000000.000001", "0x10", "１０", " 1", "true", "1e1_0"]
    lenient.with_columns(weight="weight")
    lenient.take(WEIGHTED + "".join(f"a,i,{T},{weight}\n" for weight in bad) + f"b,i,{T},2\n")
    assert lenient.ids() == [("b", "i")]
    reason = "weight is not a number up to 1,000,000,000"
    assert lenient.reasons() == [(line, reason) for line in range(2, len(bad) + 2)]


def test_event_types_count_as_the_settings_say(folder: DataFolder) -> None:
    """What counts nothing, and a type that has no weight, is set aside and named."""
    folder.with_columns(weight="weight", event="event")
    folder.with_logs(event_weights=(("buy", 5.0), ("return", -5.0), ("view", 0.0)))
    rows = [
        "a,i,{T},2,buy",
        "a,i,{T},1,return",
        "a,i,{T},1,view",
        "a,i,{T},1,like",
        "a,i,{T},0,buy",
    ]
    text = "".join(f"{row}\n" for row in rows).replace("{T}", T)
    folder.take(f"user,item,timestamp,weight,event\n{text}")
    assert folder.query("SELECT weight::DOUBLE FROM raw_logs ORDER BY line") == [(10.0,), (-5.0,)]
    assert folder.reasons() == [
        (4, "set aside: event type view"),
        (5, "set aside: no weight for event type like"),
        (6, "set aside: weight 0"),
    ]


def test_parquet_nan_inf_and_null_are_rejected(lenient: DataFolder) -> None:
    lenient.with_columns(weight="weight")
    parquet(
        lenient,
        f"""SELECT * FROM (VALUES ('a', 'i', TIMESTAMP '{T}', 'nan'::DOUBLE),
            ('b', 'i', TIMESTAMP '{T}', 'inf'::DOUBLE), (NULL, 'i', TIMESTAMP '{T}', 1.0),
            ('c', 'i', NULL, 1.0), ('d', 'i', TIMESTAMP '{T}', 1.5))
            AS t("user", item, timestamp, weight)""",
    )
    result = lenient.ingest("day=2024-03-01/part.parquet")
    assert lenient.ids() == [("d", "i")]
    assert (result.lines, result.rows_rejected) == (5, 4)


def test_parquet_ids_that_are_floating_point_are_refused(folder: DataFolder) -> None:
    parquet(folder, f"""SELECT 1.0::DOUBLE AS "user", 'i' AS item, '{T}' AS timestamp""")
    with pytest.raises(LogFileError, match="DOUBLE, which cannot be read exactly as a user"):
        folder.ingest("day=2024-03-01/part.parquet")


def test_a_damaged_parquet_file_is_refused(folder: DataFolder) -> None:
    parquet(folder, f"""SELECT 'u' AS "user", 'i' AS item, '{T}' AS timestamp""")
    path = folder.settings.logs_dir / "day=2024-03-01/part.parquet"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(LogFileError, match="was not ingested"):
        folder.ingest("day=2024-03-01/part.parquet")
    assert folder.tables() == {"raw_logs": [], "quarantine": [], "ingest_ledger": []}


@pytest.mark.parametrize("name", ["2024-03-01.csv.gz", "day=2024-03-01/part.parquet"])
def test_a_file_that_unpacks_to_what_would_fill_the_disk_is_refused(folder: DataFolder, name: str):
    if name.endswith("gz"):
        folder.write(name, gzip.compress(bytes(300_000_000), 9))
    else:
        parquet(
            folder, f"""SELECT repeat('u', 300000000) AS "user", '' AS item, '{T}' AS timestamp"""
        )
    with pytest.raises(LogFileError, match="unpacks to more than 100 times"):
        folder.ingest(name)
    assert folder.tables() == {"raw_logs": [], "quarantine": [], "ingest_ledger": []}


def test_an_unterminated_last_line_of_40_mb_is_counted(lenient: DataFolder) -> None:
    content = f"{HEADER}a,i,{T}\n".encode() + b"x" * 41_000_000
    lenient.write("2024-03-01.csv.sha256", hashlib.sha256(content).hexdigest())
    result = lenient.take(content)
    assert lenient.ids() == [("a", "i")]
    assert lenient.reasons() == [(3, "line is too long")]
    assert result.lines == 3


def test_an_unbalanced_quote_swallows_no_neighbour(lenient: DataFolder) -> None:
    rows = "".join(f"u{n},i,{T}\n" for n in range(5000))
    result = lenient.take(f'{HEADER}"open,i,{T}\n{rows}close",i,{T}\n')
    assert result.rows_accepted == 5000
    assert lenient.reasons() == [(2, "unbalanced quote"), (5003, "unbalanced quote")]


def test_the_quarantine_keeps_the_text(lenient: DataFolder) -> None:
    lenient.take(HEADER + "u,i,'; DROP TABLE raw_logs; --\n")
    assert lenient.query("SELECT source_file, line, text FROM quarantine") == [
        ("2024-03-01.csv", 2, "u,i,'; DROP TABLE raw_logs; --")
    ]


# --- Headers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no header line"),
        (f"u1,i1,{T}\nu2,i2,{T}\n", "has no column 'user'"),
        (f"User,item,timestamp\nu1,i1,{T}\n", "has no column 'user'"),
        (f"user ,item,timestamp\nu1,i1,{T}\n", "has no column 'user'"),
        (f"user,item,user,timestamp\nu,i,u,{T}\n", "has more than one column 'user'"),
        (f"us\x00er,item,timestamp\nu,i,{T}\n", "header is unreadable"),
        (f"user;item;timestamp\nu;i;{T}\n", "separated by ';': set logs.delimiter = ';'"),
        (f"user\titem\ttimestamp\nu\ti\t{T}\n", "separated by '\\\\t': name it .tsv"),
    ],
)
def test_a_wrong_header_is_refused(folder: DataFolder, content: str, message: str) -> None:
    with pytest.raises(LogFileError, match=message):
        folder.take(content)


def test_a_header_alone_is_an_empty_day_and_scratch_files_are_removed(folder: DataFolder) -> None:
    left_over = folder.settings.scratch_dir / "ingest-999999999"
    left_over.mkdir(parents=True)
    result = folder.take(HEADER.replace("\n", "\r\n"))
    assert (result.status, result.lines, result.rows_accepted) == ("new", 1, 0)
    assert list(folder.settings.scratch_dir.glob("ingest-*")) == []


def test_a_wrong_time_format_is_named_with_the_one_that_fits(folder: DataFolder) -> None:
    rows = "".join(f"u,i,{day}/03/2024 09:30\n" for day in range(13, 29))
    with pytest.raises(LogFileError, match=r"timestamp_format = '%d/%m/%Y %H:%M' would read"):
        folder.take(HEADER + rows, "2024-03-31.csv")
