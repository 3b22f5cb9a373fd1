"""Small data folders to break, and all that a folder holds, to be compared."""

import hashlib
import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.core.files import is_left_over
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries, user_id
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline_tests.defs.conftest import SETTINGS_FILE

FIRST, N_DAYS = date(2024, 3, 1), 3
SAMPLE = SampleSettings(
    n_days=N_DAYS, n_users=200, n_items=50, n_components=3, events_per_day=700, seed=4
)
LATE = "2024-03-02-late.csv"
# Columns with a time of the clock.
_TIMES = ("ingested_at", "refused_at", "accepted_at", "made_at")


def write_folder(folder: Path) -> Path:
    """Write settings and sample logs."""
    (folder / "logs").mkdir(parents=True)
    (folder / "pipeline.toml").write_text(SETTINGS_FILE + f'[pipeline]\nstart_date = "{FIRST}"\n')
    for delivery in sample_deliveries(SAMPLE):
        (folder / "logs" / delivery.name).write_bytes(delivery.content)
    return folder


def deliver_late(folder: Path) -> None:
    """Deliver a late file of the second day: this day and the third are stale."""
    lines = [f"{user_id(n)},jazz-{n % 5 + 1:03},2024-03-02T10:00:00" for n in range(1, 9)]
    text = "user,item,timestamp\n" + "\n".join(lines) + "\n"
    (folder / "logs" / LATE).write_text(text)


def copy(folder: Path, target: Path) -> Path:
    """Copy a folder as it is."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, symlinks=True)
    return target


def contents(folder: Path) -> dict[str, Any]:
    """All that a folder holds, without times of the clock and the history of runs."""
    return {
        "logs": {p.name: _hash(p.read_bytes()) for p in sorted((folder / "logs").iterdir())},
        **_tables(folder / "warehouse.duckdb"),
        **_artifacts(folder / "artifacts"),
        **_exports(folder / "exports"),
        **_models(folder / "models"),
        "reports": sorted(path.name for path in (folder / "reports").glob("*")),
        "left over": sorted(str(p.relative_to(folder)) for p in left_over(folder)),
    }


def differences(folder: Path, expected: dict[str, Any]) -> list[str]:
    """Return the names of what differs."""
    found = contents(folder)
    return sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )


def left_over(folder: Path) -> list[Path]:
    """Return the temporary files and folders of dead processes."""
    scratch = list((folder / "tmp").glob("*-*"))
    return [path for path in folder.rglob("*") if is_left_over(path)] + scratch


def _tables(path: Path) -> dict[str, Any]:
    tables = {}
    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for (name,) in connection.execute("SHOW TABLES").fetchall():
            if name == "runs":
                continue
            columns = [row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall()]
            kept = ", ".join(f"{c}::VARCHAR" for c in columns if c not in _TIMES)
            if name == "materializations":  # "it is the champion already", after a kill
                kept = kept.replace(
                    "facts::", "CASE asset WHEN 'promotion' THEN '' ELSE facts END::"
                )
            rows = connection.execute(f"SELECT {kept} FROM {name} ORDER BY ALL").fetchall()
            tables[f"table {name}, {len(rows)} rows"] = _hash(repr(rows).encode())
    return tables


def _artifacts(root: Path) -> dict[str, Any]:
    return {str(p.relative_to(root)): _hash(p.read_bytes()) for p in root.glob("*/*.npz")}


def _exports(root: Path) -> dict[str, Any]:
    order = "ORDER BY ALL"
    return {
        f"export {path.name}": _hash(repr(duckdb.sql(f"FROM '{path}' {order}").fetchall()).encode())
        for path in sorted(root.rglob("*.parquet"))
        if not path.name.startswith(".")
    }


def _models(root: Path) -> dict[str, Any]:
    registry = ModelRegistry(root)
    versions = registry.versions()
    changes = [(change.version, change.kind, change.by) for change in registry.history()]
    return {
        "models": json.dumps([(entry.version, entry.damage) for entry in versions]),
        "champion": json.dumps(changes),
    }


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
