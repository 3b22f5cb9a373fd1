"""UCI Online Retail: invoice lines of a UK gift shop.

A line is one interaction of weight 1. Lines without a customer, cancellations (the invoice
number begins with C) and lines whose quantity is not positive stay in the log files, set aside
with their reason: they are counted in the ledger and are no events.
"""

from pathlib import Path

from mom_pipeline.datasets.delimited import delimited_file, require_header
from mom_pipeline.datasets.importing import Dataset
from mom_pipeline.datasets.options import ImportOptions
from mom_pipeline.settings import ColumnSettings

NAME = "online-retail"
HEADER = [
    "InvoiceNo", "StockCode", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country",
]  # fmt: skip
_EXCLUDE = """
    CASE
        WHEN f[6] = '' THEN 'no customer'
        WHEN starts_with(f[1], 'C') THEN 'cancellation'
        WHEN coalesce(TRY_CAST(f[3] AS BIGINT), 0) <= 0 THEN 'quantity not positive'
        ELSE ''
    END
"""


def dataset(path: Path, options: ImportOptions) -> Dataset:
    """The adapter for `online_retail.csv` or `.csv.gz`; there is nothing to choose."""
    require_header(path, HEADER)
    raw = delimited_file(
        path,
        ",",
        len(HEADER),
        time="try_strptime(f[4], '%Y-%m-%d %H:%M:%S')",
        user="f[6]",
        item="f[2]",
        exclude=_EXCLUDE,
    )
    return Dataset(
        name=NAME,
        timezone="Europe/London",
        columns=ColumnSettings(exclude="exclude"),
        files=(raw,),
        rules="set aside: lines without a customer, cancellations, quantities not positive",
    )
