"""What was written for people and other programs, without one user."""

import json
import shutil
from collections import Counter

from mom_pipeline.core.files import replacing
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Warehouse, literal_path, scalar


def erase_from_exports(warehouse: Warehouse, user_id: str) -> Counter[str]:
    """Rewrite every export that holds the user; the lists of all others stay as they were."""
    counts: Counter[str] = Counter()
    files = sorted(warehouse.settings.exports_dir.rglob("*.parquet"))
    if not files:
        return counts
    with warehouse.connect() as connection:
        for path in (file for file in files if not file.name.startswith(".")):
            source = {"path": literal_path(path), "user": user_id}
            found = scalar(
                connection,
                "SELECT count(*) FROM read_parquet($path) WHERE user_id = $user",
                source,
            )
            # Written again even where nothing is found: a statistic of the file may name the id.
            with replacing(path) as temporary:
                connection.sql(
                    "SELECT * FROM read_parquet($path) WHERE user_id <> $user", params=source
                ).write_parquet(str(temporary))
            counts["rows of exports"] += found
    return counts


def remove_pages(settings: Settings) -> Counter[str]:
    """Remove reports, which show samples of users, and comparisons of days, with a value for each
    user. Both can be made again; a comparison on a ready split is about nobody here.
    """
    counts: Counter[str] = Counter()
    for page in settings.reports_dir.glob("*.html"):
        page.unlink()
        counts["reports"] += 1
    for summary in settings.comparisons_dir.glob("*/comparison.json"):
        try:
            of_days = bool(json.loads(summary.read_text(encoding="utf-8"))["comparison"]["day"])
        except (ValueError, KeyError, TypeError):
            of_days = True
        if of_days:
            shutil.rmtree(summary.parent)
            counts["comparisons"] += 1
    return counts
