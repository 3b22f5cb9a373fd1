"""Ta-Feng grocery purchases (paper, section 4.1): November 2000 to February 2001.

Either the four monthly files (D01, D02, D11, D12: `;`-separated, Big5 header) or the merged
CSV. A line is one sale of weight 1. Training: January and November; test: February and
December.
"""

from pathlib import Path

from mom_pipeline.datasets.delimited import delimited_file, read_header, require_header
from mom_pipeline.datasets.importing import Dataset, RawFile
from mom_pipeline.datasets.options import ImportOptions
from mom_pipeline.errors import DatasetError
from mom_pipeline.settings import ColumnSettings

NAME = "tafeng"
MERGED_HEADER = [
    "TRANSACTION_DT", "CUSTOMER_ID", "AGE_GROUP", "PIN_CODE", "PRODUCT_SUBCLASS", "PRODUCT_ID",
    "AMOUNT", "ASSET", "SALES_PRICE",
]  # fmt: skip
MONTHLY_FILES = ("D01", "D02", "D11", "D12")
TRAIN_MONTHS = (1, 11)


def dataset(path: Path, options: ImportOptions) -> Dataset:
    """The adapter for a folder with the monthly files, or for the merged CSV."""
    return Dataset(
        name=NAME,
        timezone="Asia/Taipei",
        columns=ColumnSettings(),
        files=_monthly_files(path) if path.is_dir() else (_merged_file(path),),
        rules="training: January and November; test: February and December",
        train_days=lambda day: day.month in TRAIN_MONTHS,
    )


def _merged_file(path: Path) -> RawFile:
    require_header(path, MERGED_HEADER)
    return delimited_file(
        path, ",", 9, time="try_strptime(f[1], '%m/%d/%Y')", user="f[2]", item="f[6]"
    )


def _monthly_files(folder: Path) -> tuple[RawFile, ...]:
    """D01 … D12, with or without a suffix; ids are padded with blanks there."""
    raw = []
    for month in MONTHLY_FILES:
        found = [p for p in sorted(folder.iterdir()) if p.name.split(".")[0].upper() == month]
        if len(found) != 1:
            raise DatasetError(
                f"{folder} must hold exactly one file {month}, found {[p.name for p in found]}; "
                f"give the folder with {', '.join(MONTHLY_FILES)}, or the merged CSV"
            )
        if len(read_header(found[0], ";", encoding="big5")) != len(MERGED_HEADER):
            raise DatasetError(f"{found[0]} must have {len(MERGED_HEADER)} columns separated by ;")
        raw.append(
            delimited_file(
                found[0],
                ";",
                len(MERGED_HEADER),
                time="try_strptime(f[1], '%Y-%m-%d %H:%M:%S')",
                user="trim(f[2])",
                item="trim(f[6])",
            )
        )
    return tuple(raw)
