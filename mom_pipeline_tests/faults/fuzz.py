"""Log files with random damage: each is refused, or every one of its lines is accounted for."""

import gzip
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mom_pipeline.core.errors import MomError
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.ingest import IngestResult, ingest_file
from mom_pipeline_tests.data_folder import DataFolder, log_file

_NAMES = ("2024-03-01.csv", "2024-03-02.tsv", "2024-03-03.jsonl", "2024-03-04.csv.gz")
_PIECES = (
    b"\x00",
    b"\xff\xfe",
    b"\r\n",
    b"\r",
    b'"',
    b'""',
    b",",
    b"\t",
    b"\x02",
    b"\xef\xbb\xbf",
    b"{",
    b"}\n{",
    b"\\u0000",
    b"'; DROP TABLE raw_logs; --",
    b"=1+1",
    b"1e400",
    b"NaN",
    b"9999-12-31T24:00:00",
    b"+99:00",
    "é\u202e".encode(),
    b"x" * 5000,
)


@dataclass
class Fuzzed:
    """taken, refused: how many.  failures: files that were neither, or lost a line."""

    taken: int = 0
    refused: int = 0
    lines: int = 0
    failures: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


def fuzz(root: Path, n_files: int, seed: int) -> Fuzzed:
    """Ingest files with random damage one after another, each in place of the one before."""
    rng = random.Random(seed)
    folder = DataFolder(root).with_logs(max_reject_share=1.0)
    counts = Fuzzed()
    with folder.warehouse.opened():
        for number in range(n_files):
            name = rng.choice(_NAMES)
            content = _damaged(_content(name, rng), rng)
            if name.endswith(".gz"):
                content = gzip.compress(content, 1)
                content = _damaged(content, rng) if rng.random() < 0.3 else content
            path = folder.write(name, content)
            try:
                result = ingest_file(folder.warehouse, log_file(path, folder.settings.logs_dir))
            except LogFileError as refusal:
                counts.refused += 1
                counts.reasons[type(refusal).__name__] += 1
                continue
            except (Exception, MomError) as error:
                counts.failures.append(f"file {number}: {error!r:.200}")
                continue
            counts.taken += 1
            counts.lines += result.lines
            with folder.warehouse.opened() as connection:
                stored = [
                    connection.execute(
                        f"SELECT count(*) FROM {table} WHERE source_file = $name", {"name": name}
                    ).fetchall()[0][0]
                    for table in ("raw_logs", "quarantine")
                ]
            problem = _unaccounted(name, content, result, stored)
            if problem:
                counts.failures.append(f"file {number}: {problem}")
    return counts


def _unaccounted(name: str, content: bytes, result: IngestResult, stored: list[int]) -> str:
    """Say which lines are neither stored nor in the quarantine; "" when all are."""
    text = gzip.decompress(content) if name.endswith(".gz") else content
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    header, mark = (0, b"") if name.endswith("jsonl") else (1, b"\t" if "tsv" in name else b",")
    blank = sum(not line.strip(b" \t\r" + mark) for line in lines[header:])
    repeated = sum(line == lines[0] for line in lines[1:]) * header
    # A record in quotes may go on over line ends.
    rowless = result.header_lines if b'"' in text and header else header + blank + repeated
    if len(lines) == result.lines == rowless + sum(stored):
        return ""
    return f"{len(lines)} lines, {result.lines} counted, {stored} stored and in quarantine"


def _content(name: str, rng: random.Random) -> bytes:
    """Return a sound file of a few lines."""
    rows = [
        (f"user-{rng.randrange(50)}", f"item-{rng.randrange(20)}", f"2024-03-01T10:{n:02}:00")
        for n in range(rng.randrange(1, 12))
    ]
    if "jsonl" in name:
        lines = [f'{{"user": "{u}", "item": "{i}", "timestamp": "{t}"}}' for u, i, t in rows]
    else:
        mark = "\t" if "tsv" in name else ","
        lines = [mark.join(row) for row in [("user", "item", "timestamp"), *rows]]
    return "".join(f"{line}\n" for line in lines).encode()


def _damaged(content: bytes, rng: random.Random) -> bytes:
    """Return bytes with some flipped, cut out, doubled, put in or cut off at the end."""
    data = bytearray(content)
    for _ in range(rng.randrange(4)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place : place + rng.randrange(20)]
            case 2:
                data[place:place] = data[place : place + rng.randrange(40)]
            case 3:
                data[place:place] = rng.choice(_PIECES)
            case _ if rng.random() < 0.3:
                del data[place:]
    return bytes(data)
