"""MovieTweetings: ratings of films on Twitter, with titles and genres."""

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mom_pipeline.catalogue import Item, tidy
from mom_pipeline.datasets.importing import Dataset, ImportOptions, RawFile, open_text
from mom_pipeline.errors import DatasetError
from mom_pipeline.settings import ColumnSettings
from mom_pipeline.warehouse.connection import load_sql

_SEPARATOR = "::"


def movietweetings(path: Path, _: ImportOptions) -> Dataset:
    """A folder with `ratings.dat` (user::film::rating::seconds) and `movies.dat`, plain or .gz.

    A rating is one interaction of weight 1, whatever it is. `movies.dat`
    (film::title (year)::genres) names the items and their groups.
    """
    ratings, movies = (_only(path, name) for name in ("ratings", "movies"))
    select = load_sql("datasets/movietweetings.sql")
    return Dataset(
        name="movietweetings",
        timezone="UTC",
        columns=ColumnSettings(),
        files=(RawFile(ratings, select, other_lines="false"),),
        rules="every rating counts once",
        items=partial(_titles, movies),
    )


def _only(folder: Path, name: str) -> Path:
    matches = sorted(folder.glob(f"{name}.dat*")) if folder.is_dir() else []
    if len(matches) != 1:
        raise DatasetError(
            f"{folder} must be a folder with exactly one file {name}.dat or {name}.dat.gz, found "
            f"{[match.name for match in matches]}"
        )
    return matches[0]


def _titles(path: Path) -> Iterator[Item]:
    """Yield the films of `movies.dat`; a title may hold the separator, an id and genres do not."""
    with open_text(path) as stream, io.TextIOWrapper(stream, "utf-8", newline="\n") as lines:
        for line in lines:
            film, _, rest = line.rstrip("\r\n").partition(_SEPARATOR)
            title, _, genres = rest.rpartition(_SEPARATOR)
            if film and title:
                yield Item(film, tidy(title), genres)
