"""Erasure of the lines of one user from log files, which are then ingested again."""

import gzip
import shutil
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.files import replacing, sha256_of, write_text
from mom_pipeline.erasure.search import mention_in_sql
from mom_pipeline.logs.decisions import keeping_decisions
from mom_pipeline.logs.ingest import ingest_file, is_unchanged
from mom_pipeline.logs.ledger import ledger_by_file
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.logs.readers import ERASED, event_query, stage_log
from mom_pipeline.logs.scan import scan_file
from mom_pipeline.warehouse.connection import Connection, Warehouse, literal_path
from mom_pipeline.warehouse.erased import erased_users


@dataclass(frozen=True)
class OwnLines:
    """A file that has to do with a user.

    lines: physical lines to leave out, or rows of Parquet.  ingested: the ledger knows the file.
    """

    file: LogFile
    lines: frozenset[int]
    ingested: bool


def find_lines(warehouse: Warehouse, user_id: str) -> list[OwnLines]:
    """The files that hold a user, or whose rows in the warehouse do.

    A file whose bytes are those of the ledger, and that brought nothing of the user, is not
    looked into again.
    """
    known = ledger_by_file(warehouse)
    with warehouse.connect() as connection:
        brought = _sources(connection, user_id)
    holding = []
    for file in discover(warehouse.settings.logs_dir).files:
        entry = known.get(file.source_file)
        same = entry is not None and is_unchanged(file, entry, warehouse.settings)
        if same and file.source_file not in brought:
            continue
        lines = _lines_of(warehouse, file, user_id)
        if lines or file.source_file in brought:
            holding.append(OwnLines(file, lines, entry is not None))
    return holding


def erase_lines(warehouse: Warehouse, own: OwnLines, user_id: str) -> Counter[str]:
    """Leave the user's lines out of a file, and exchange what the file brought.

    The file that remains is read as any delivery, so table, quarantine and ledger are those of
    a file that never had the lines, and it does not count as changed.
    """
    settings = warehouse.settings
    with keeping_decisions(warehouse, own.file):
        if own.lines:
            _rewrite(warehouse, own, user_id)
        if own.ingested:
            # What is left was taken before: fewer good lines do not make it a bad delivery.
            logs = replace(settings.logs, max_reject_share=1.0, require_checksum=False)
            ingest_file(Warehouse(settings.model_copy(update={"logs": logs})), own.file)
    return Counter({"log files": bool(own.lines), "log lines": len(own.lines)})


def _sources(connection: Connection, user_id: str) -> set[str]:
    """Files with rows of the user, or with lines in quarantine that are about them."""
    rows = connection.execute(
        "SELECT source_file FROM raw_logs WHERE user_id = $user UNION "
        "SELECT source_file FROM quarantine "
        "WHERE reason = $erased OR regexp_matches(text, $mention)",
        {"user": user_id, "erased": ERASED, "mention": mention_in_sql(user_id)},
    ).fetchall()
    return {source for (source,) in rows}


def _lines_of(warehouse: Warehouse, file: LogFile, user_id: str) -> frozenset[int]:
    """Lines of the user by the rules of the ingest, and malformed ones that mention them."""
    settings = warehouse.settings
    with scratch_folder(settings, "erasure") as scratch:
        scan = scan_file(file, scratch)
        with warehouse.opened() as connection:
            stage_log(connection, file, scan, settings.logs)
            query = event_query(file, scan.readable, settings.logs, erased_users(settings))
            rows = connection.execute(
                f"""
                {query.sql} SELECT unnest(range(line, line + len(string_split(text, chr(10)))))
                FROM events WHERE user_id = $user
                OR (reason IS NOT NULL AND regexp_matches(text, $mention))
                """,  # noqa: S608
                {**query.parameters, "user": user_id, "mention": mention_in_sql(user_id)},
            ).fetchall()
    return frozenset(line for (line,) in rows)


def _rewrite(warehouse: Warehouse, own: OwnLines, user_id: str) -> None:
    """Replace a file, and the checksum beside it, by one without the user's lines."""
    file, beside = own.file, own.file.checksum_path
    stated = beside.exists()
    beside.unlink(missing_ok=True)  # gone rather than wrong, should this be interrupted
    with replacing(file.path) as temporary:
        if file.format == "parquet":
            _copy_rows(warehouse, file, user_id, temporary)
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


def _copy_rows(warehouse: Warehouse, file: LogFile, user_id: str, target: Path) -> None:
    """All columns and rows of Parquet but those of the user; no column has a quote in its name."""
    column = warehouse.settings.logs.columns.user
    with warehouse.connect() as connection:
        connection.sql(
            "SELECT * FROM read_parquet($path, hive_partitioning = false) "  # noqa: S608
            f'WHERE "{column}"::VARCHAR IS DISTINCT FROM $user',
            params={"path": literal_path(file.path), "user": user_id},
        ).write_parquet(str(target))
