"""Adapters that turn published datasets into daily log files, with the paper's splits."""

from collections.abc import Callable
from pathlib import Path

from mom_pipeline.datasets.delimited import csv_file, online_retail, parsed_rows
from mom_pipeline.datasets.guessing import Guess, guess_file
from mom_pipeline.datasets.importing import (
    SUMMARY_FILE,
    Dataset,
    ImportOptions,
    ImportSummary,
    import_dataset,
    read_summary,
)
from mom_pipeline.datasets.movietweetings import movietweetings
from mom_pipeline.datasets.paper import million_song, tafeng, yandex

DATASETS: dict[str, Callable[[Path, ImportOptions], Dataset]] = {
    "tafeng": tafeng,
    "million-song": million_song,
    "yandex": yandex,
    "online-retail": online_retail,
    "movietweetings": movietweetings,
    "csv": csv_file,
}

__all__ = [
    "DATASETS",
    "SUMMARY_FILE",
    "Dataset",
    "Guess",
    "ImportOptions",
    "ImportSummary",
    "csv_file",
    "guess_file",
    "import_dataset",
    "parsed_rows",
    "read_summary",
]
