"""Adapters that turn published datasets, and files of one's own, into daily log files."""

from collections.abc import Callable
from pathlib import Path

from mom_pipeline.datasets.guessing import Guess, ImportOptions, guess_file, own_file
from mom_pipeline.datasets.importing import (
    SUMMARY_FILE,
    Dataset,
    ImportSummary,
    import_dataset,
    read_summary,
)
from mom_pipeline.datasets.published import (
    million_song,
    movietweetings,
    online_retail,
    tafeng,
    yandex,
)

DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "tafeng": tafeng,
    "million-song": million_song,
    "yandex": yandex,
    "online-retail": online_retail,
    "movietweetings": movietweetings,
}

__all__ = [
    "DATASETS",
    "SUMMARY_FILE",
    "Dataset",
    "Guess",
    "ImportOptions",
    "ImportSummary",
    "guess_file",
    "import_dataset",
    "own_file",
    "read_summary",
]
