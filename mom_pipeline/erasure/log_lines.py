"""Erasure of the lines of one user from log files, which are then ingested again."""

import gzip
import shutil
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.files import replacing, sha256_of, write_text, writing
from mom_pipeline.erasure.search import mention_in_sql
from mom_pipeline.logs.decisions import keeping_decisions
from mom_pipeline.logs.ingest import ingest_file, is_unchanged, stage
from mom_pipeline.logs.ledger import ledger_by_file
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.logs.readers import ERASED, event_query
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
    file = own.file
    with keeping_decisions(warehouse, file):
        _exchange(warehouse, own, user_id)
    return Counter({"log files": bool(own.lines), "log lines": len(own.lines)})


def _exchange(warehouse: Warehouse, own: OwnLines, user_id: str) -> None:
    file = own.file
    if own.lines:
        beside = file.checksum_path
        stated = beside.exists()
        beside.unlink(missing_ok=True)  # gone rather than wrong, should this be interrupted
        if file.format == "parquet":
            _rewrite_parquet(warehouse, file, user_id)
        else:
            _rewrite_text(file, own.lines)
        if stated:
            write_text(beside, f"{sha256_of(file.path)}  {file.path.name}\n")
    if own.ingested:
        settings = warehouse.settings
        # What is left was taken before: fewer good lines do not make it a bad delivery.
        logs = replace(settings.logs, max_reject_share=1.0, require_checksum=False)
        lenient = settings.model_copy(update={"logs": logs})
        ingest_file(Warehouse(lenient), file)


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
            stage(connection, file, scan, settings.logs)
            query = event_query(file, scan.readable, settings.logs, erased_users(settings))
            rows = connection.execute(
                f"{query.sql} SELECT line FROM events WHERE user_id = $user "  # noqa: S608
                f"OR (reason IS NOT NULL AND regexp_matches(text, $mention))",
                {**query.parameters, "user": user_id, "mention": mention_in_sql(user_id)},
            ).fetchall()
    return frozenset(line for (line,) in rows)


def _rewrite_text(file: LogFile, lines: Collection[int]) -> None:
    with ExitStack() as open_ones:
        raw = open_ones.enter_context(file.path.open("rb"))
        out: IO[bytes] = open_ones.enter_context(writing(file.path))
        source: IO[bytes] = raw
        if file.compressed:
            source = cast(IO[bytes], open_ones.enter_context(gzip.GzipFile(fileobj=raw)))
            packed = gzip.GzipFile("", "wb", fileobj=out, mtime=0)
            out = cast(IO[bytes], open_ones.enter_context(packed))
        for number, line in enumerate(source, start=1):
            if number not in lines:
                out.write(line)
        _keep_mode(file.path)


def _rewrite_parquet(warehouse: Warehouse, file: LogFile, user_id: str) -> None:
    """All columns and rows but those of the user; settings admit no column with a quote."""
    column = warehouse.settings.logs.columns.user
    with warehouse.connect() as connection, replacing(file.path) as temporary:
        kept = connection.sql(
            "SELECT * FROM read_parquet($path, hive_partitioning = false) "  # noqa: S608
            f'WHERE "{column}"::VARCHAR IS DISTINCT FROM $user',
            params={"path": literal_path(file.path), "user": user_id},
        )
        kept.write_parquet(str(temporary))
        _keep_mode(file.path)


def _keep_mode(path: Path) -> None:
    """Give the file that is about to take the place the permissions of the present one."""
    for temporary in path.parent.glob(f".{path.name}.*.tmp"):
        shutil.copymode(path, temporary)
