"""Adapters that turn published datasets into daily log files, with the paper's splits."""

from mom_pipeline.datasets import (
    csv_file,
    million_song,
    online_retail,
    tafeng,
    yandex,
)
from mom_pipeline.datasets.importing import (
    Dataset,
    ImportSummary,
    import_dataset,
    read_summary,
)

DATASETS = {
    module.NAME: module.dataset
    for module in (tafeng, million_song, yandex, online_retail, csv_file)
}

__all__ = ["DATASETS", "Dataset", "ImportSummary", "import_dataset", "read_summary"]
