"""The streamed pass: independent line count, sha256, and readable lines."""

import gzip
import hashlib
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mom_pipeline.errors import LogFileError, LogFileNotRead
from mom_pipeline.logs import scan as scan_module
from mom_pipeline.logs.logfiles import LogFile
from mom_pipeline.logs.scan import MARK, MAX_LINE_BYTES, Scan, scan_file


def scan(tmp_path: Path, content: bytes, name: str = "2024-03-01.csv") -> Scan:
    path = tmp_path / name
    path.write_bytes(content)
    file = LogFile(date(2024, 3, 1), name, path, "csv", name.endswith(".gz"))
    return scan_file(file, tmp_path / "scratch")


@pytest.mark.parametrize("name", ["2024-03-01.csv", "2024-03-01.csv.gz"])
@pytest.mark.parametrize(
    ("content", "lines", "ended"),
    [
        (b"", 0, True),
        (b"a", 1, False),
        (b"a\n", 1, True),
        (b"a\r\n", 1, True),
        (b"a\n\n", 2, True),
        (b"a\nb", 2, False),
        (b"a\nb\r", 2, False),
        (b"\n" * 5, 5, True),
        (b"a\n" + b"x" * (MAX_LINE_BYTES - 2), 2, False),
        (b"x" * (2 * MAX_LINE_BYTES + 7), 1, False),
        (b"x" * (2 * MAX_LINE_BYTES + 7) + b"\n", 1, True),
    ],
)
def test_lines_are_counted_and_a_last_one_without_its_end_is_seen(
    tmp_path: Path, content: bytes, lines: int, ended: bool, name: str
) -> None:
    packed = gzip.compress(content, 1) if name.endswith(".gz") else content
    result = scan(tmp_path, packed, name)
    assert (result.lines, result.ended) == (lines, ended)


def test_a_plain_file_is_read_in_place(tmp_path: Path) -> None:
    result = scan(tmp_path, "a,é,1\tx\n".encode())
    assert result.readable == tmp_path / "2024-03-01.csv"
    assert result.sha256 == hashlib.sha256("a,é,1\tx\n".encode()).hexdigest()


def test_windows_line_ends_become_plain_ones(tmp_path: Path) -> None:
    result = scan(tmp_path, b"a\r\nb\nc\r\n")
    assert (result.lines, result.readable.read_bytes()) == (3, b"a\nb\nc\n")


@pytest.mark.parametrize(
    ("line", "reason", "shown"),
    [
        (b"a\x00b", "control character", r"a\x00b"),
        (b"a\rb", "control character", r"a\x0db"),
        (b"a\x1fb", "control character", r"a\x1fb"),
        (b"\x02not UTF-8\x02forged\xff", "not UTF-8", r"\x02not UTF-8\x02forged\xff"),
        (b"caf\xe9", "not UTF-8", r"caf\xe9"),
    ],
)
def test_an_unreadable_line_is_marked(tmp_path: Path, line: bytes, reason: str, shown: str) -> None:
    result = scan(tmp_path, b"good,1\n" + line + b"\ngood,2\n")
    expected = f"good,1\n{MARK}{reason}{MARK}{shown}\ngood,2\n"
    assert result.readable.read_text() == expected
    assert result.lines == 3


@pytest.mark.parametrize("length", [MAX_LINE_BYTES + 1, 2 * MAX_LINE_BYTES + 7, 5 * MAX_LINE_BYTES])
@pytest.mark.parametrize("end", [b"\n", b"", b"\nlast\n"])
@pytest.mark.parametrize("begin", [b"", b"head\n", b"h" * 700_000 + b"\n"])
def test_an_over_long_line_is_cut_and_marked(
    tmp_path: Path, begin: bytes, length: int, end: bytes
) -> None:
    result = scan(tmp_path, begin + b"x" * length + end)
    texts = result.readable.read_text().splitlines()
    position = begin.count(b"\n")
    assert texts[position].startswith(f"{MARK}line is too long{MARK}xxx")
    assert result.lines == len(texts) == position + 1 + end.count(b"last")


def test_a_line_of_exactly_the_limit_is_kept(tmp_path: Path) -> None:
    content = b"a\n" + b"x" * MAX_LINE_BYTES + b"\nb\n"
    assert scan(tmp_path, content).readable == tmp_path / "2024-03-01.csv"


def test_the_beginning_is_kept_when_a_late_line_is_bad(tmp_path: Path) -> None:
    good = b"".join(b"user%d,item\n" % i for i in range(300_000))
    result = scan(tmp_path, good + b"bad\x00\n")
    assert result.readable.read_bytes().startswith(good)
    assert result.lines == 300_001


def test_gzip_is_unpacked_with_all_its_members(tmp_path: Path) -> None:
    packed = gzip.compress(b"a\n") + gzip.compress(b"b\n")
    result = scan(tmp_path, packed, "2024-03-01.csv.gz")
    assert result.readable.read_bytes() == b"a\nb\n"
    assert (result.lines, result.size_bytes) == (2, len(packed))
    assert result.sha256 == hashlib.sha256(packed).hexdigest()


def test_what_the_decompressor_leaves_unread_is_hashed_too(tmp_path: Path) -> None:
    """Zeros after a gzip stream are padding, more than one read takes."""
    packed = gzip.compress(b"a\n") + bytes(3 * MAX_LINE_BYTES)
    result = scan(tmp_path, packed, "2024-03-01.csv.gz")
    assert result.sha256 == hashlib.sha256(packed).hexdigest()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_changes_while_it_is_read_is_not_taken(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"2024-03-01.{kind}"
    path.write_bytes(b"a\n")
    file = LogFile(date(2024, 3, 1), path.name, path, kind, compressed=False)
    with pytest.raises(LogFileNotRead, match="changed while it was read"):
        scan_file(file, tmp_path / "scratch", lambda n_bytes: path.write_bytes(b"a\nmore\n"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-9],
        lambda packed: packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:],  # another CRC
        lambda packed: packed[:999] + bytes([packed[999] ^ 16]) + packed[1000:],
    ],
)
def test_damaged_gzip_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    packed = gzip.compress(b"".join(b"user%d,item\n" % i for i in range(1000)))
    with pytest.raises(LogFileError, match="damaged"):
        scan(tmp_path, damage(packed), "2024-03-01.csv.gz")


@given(content=st.binary(max_size=200), block=st.integers(1, 7))
def test_any_bytes_keep_their_line_count(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, block: int
) -> None:
    """Whatever the bytes and wherever blocks fall, each physical line is one readable line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_module, "MAX_LINE_BYTES", block)
        result = scan(tmp_path_factory.mktemp("scan"), content)
    physical = content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    readable = result.readable.read_bytes()
    assert result.lines == physical
    assert readable.count(b"\n") + (readable[-1:] not in (b"", b"\n")) == physical
    readable.decode("utf-8")
