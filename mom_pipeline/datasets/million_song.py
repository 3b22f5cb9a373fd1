r"""Million Song: `user<TAB>song<TAB>plays` triplets (paper, section 4.2).

The visible half is for training, the hidden half for test. Triplets carry no dates: the visible
half is declared to be the first day, the hidden half the second. Plays are the weight.
"""

from datetime import timedelta
from pathlib import Path

from mom_pipeline.datasets.importing import Dataset, RawFile
from mom_pipeline.datasets.options import ImportOptions
from mom_pipeline.errors import DatasetError
from mom_pipeline.settings import ColumnSettings
from mom_pipeline.warehouse.connection import load_sql

NAME = "million-song"
HALVES = ("visible", "hidden")


def dataset(path: Path, options: ImportOptions) -> Dataset:
    """The adapter for a folder with one `…visible….txt` and one `…hidden….txt` file."""
    files = []
    for offset, half in enumerate(HALVES):
        found = sorted(path.glob(f"*{half}*.txt*")) if path.is_dir() else []
        if len(found) != 1:
            raise DatasetError(
                f"{path} must be a folder with exactly one file *{half}*.txt of triplets, "
                f"found {[p.name for p in found]}"
            )
        day = options.first_day + timedelta(days=offset)
        parameters: dict[str, object] = {"day": day.isoformat()}
        select = load_sql("datasets/million_song.sql")
        files.append(RawFile(found[0], select, other_lines="false", parameters=parameters))
    return Dataset(
        name=NAME,
        timezone="UTC",
        columns=ColumnSettings(weight="weight"),
        files=tuple(files),
        rules="visible half: training; hidden half: test; one declared day each; plays as weight",
        train_days=lambda day: day == options.first_day,
    )
