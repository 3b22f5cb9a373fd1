"""Erasure of the lines of users from log files, which are then ingested again."""

import gzip
import shutil
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, cast

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.files import replacing, sha256_of, write_text
from mom_pipeline.erasure.search import MENTIONED, wanted_users
from mom_pipeline.logs.decisions import keeping_decisions
from mom_pipeline.logs.ingest import ingest_file, is_unchanged
from mom_pipeline.logs.ledger import ledger_entries
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.logs.readers import ERASED, stage_log
from mom_pipeline.logs.scan import scan_file
from mom_pipeline.warehouse.connection import Warehouse, literal_path
from mom_pipeline.warehouse.erased import erased_users


@dataclass(frozen=True)
class OwnLines:
    """A file that has to do with users."""

    file: LogFile
    lines: frozenset[int]  # physical lines to leave out, or rows of Parquet
    ingested: bool  # the ledger knows the file
    # those whose lines they are, as far as the lines can be read
    users: frozenset[str] = field(default=frozenset(), repr=False)


def find_lines(warehouse: Warehouse, user_ids: Collection[str]) -> list[OwnLines]:
    """The files that hold users, or whose rows do; those ingested without them are not read."""
    with warehouse.connect() as connection, wanted_users(connection, user_ids):
        known = {entry.source_file: entry for entry in ledger_entries(connection)}
        rows = connection.execute(
            "SELECT source_file FROM raw_logs WHERE user_id IN (FROM wanted) "  # noqa: S608
            "UNION SELECT source_file FROM quarantine "
            f"WHERE reason = $erased OR {MENTIONED.format('text')}",
            {"erased": ERASED},
        ).fetchall()
    brought = {source for (source,) in rows}
    holding = []
    for file in discover(warehouse.settings.logs_dir).files:
        entry = known.get(file.source_file)
        same = entry is not None and is_unchanged(file, entry, warehouse.settings)
        if same and file.source_file not in brought:
            continue
        lines = _lines_of(warehouse, file, user_ids)
        if lines or file.source_file in brought:
            numbers, users = frozenset(n for n, _ in lines), frozenset(u for _, u in lines if u)
            holding.append(OwnLines(file, numbers, entry is not None, users))
    return holding


def erase_lines(
    warehouse: Warehouse, files: Sequence[OwnLines], user_ids: Collection[str]
) -> Counter[str]:
    """Leave the users' lines out of files, and exchange what the files brought.

    The file that remains is read as any delivery, and does not count as changed.
    """
    settings, counts = warehouse.settings, Counter[str]()
    # What is left was taken before: fewer good lines do not make it a bad delivery.
    logs = replace(settings.logs, max_reject_share=1.0, require_checksum=False)
    lenient = Warehouse(settings.model_copy(update={"logs": logs}))
    for own in files:
        with keeping_decisions(warehouse, own.file):
            if own.lines:
                _rewrite(warehouse, own, user_ids)
            if own.ingested:
                ingest_file(lenient, own.file)
        counts += Counter({"log files": bool(own.lines), "log lines": len(own.lines)})
    return counts


def _lines_of(
    warehouse: Warehouse, file: LogFile, user_ids: Collection[str]
) -> list[tuple[int, str | None]]:
    """Lines of users by the rules of the ingest, and malformed ones that mention them."""
    settings = warehouse.settings
    with scratch_folder(settings, "erasure") as scratch:
        scan = scan_file(file, scratch)
        with warehouse.opened() as connection, wanted_users(connection, user_ids):
            erased = erased_users(warehouse)
            _, query = stage_log(connection, file, scan, settings.logs, erased)
            return connection.execute(
                f"""
                {query.sql},
                near AS MATERIALIZED (
                    SELECT unnest(range(line, line + len(string_split(text, chr(10))))) AS line,
                        text, user_id, reason
                    FROM events WHERE reason IS NOT NULL OR user_id IN (FROM wanted)
                )
                SELECT line, user_id FROM near WHERE user_id IN (FROM wanted)
                UNION SELECT line, NULL FROM (SELECT * FROM near WHERE reason IS NOT NULL)
                WHERE {MENTIONED.format("text")}
                """,  # noqa: S608
                query.parameters,
            ).fetchall()


def _rewrite(warehouse: Warehouse, own: OwnLines, user_ids: Collection[str]) -> None:
    """Replace a file, and the checksum beside it, by one without the users' lines."""
    file, beside = own.file, own.file.checksum_path
    stated = beside.exists()
    beside.unlink(missing_ok=True)  # gone rather than wrong, should this be interrupted
    with replacing(file.path) as temporary:
        if file.format == "parquet":
            _copy_rows(warehouse, file, user_ids, temporary)
        else:
            _copy_lines(own, temporary)
        shutil.copymode(file.path, temporary)
    if stated:
        write_text(beside, f"{sha256_of(file.path)}  {file.path.name}\n")


def _copy_lines(own: OwnLines, target: Path) -> None:
    with ExitStack() as opened:
        source: IO[bytes] = opened.enter_context(own.file.path.open("rb"))
        out: IO[bytes] = opened.enter_context(target.open("wb"))
        if own.file.compressed:
            unpacked = opened.enter_context(gzip.GzipFile(fileobj=source))
            packed = opened.enter_context(gzip.GzipFile("", "wb", fileobj=out, mtime=0))
            source, out = cast("IO[bytes]", unpacked), cast("IO[bytes]", packed)
        out.writelines(line for n, line in enumerate(source, start=1) if n not in own.lines)


def _copy_rows(
    warehouse: Warehouse, file: LogFile, user_ids: Collection[str], target: Path
) -> None:
    """All columns and rows of Parquet but those of users; no column has a quote in its name."""
    column = warehouse.settings.logs.columns.user
    with warehouse.connect() as connection:
        connection.sql(
            "SELECT * FROM read_parquet($path, hive_partitioning = false) "  # noqa: S608
            f'WHERE "{column}" IS NULL OR "{column}"::VARCHAR NOT IN (SELECT unnest($users))',
            params={"path": literal_path(file.path), "users": list(user_ids)},
        ).write_parquet(str(target))
