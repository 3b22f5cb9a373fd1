"""Pictures and tables for the metadata of a day."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from matplotlib.figure import Figure

from mom_pipeline.pictures import drawn


def picture(figure: Figure) -> dg.MarkdownMetadataValue:
    """A figure with its title, inside of the metadata."""
    return embedded(drawn(figure, "png"), figure.axes[0].get_title(loc="left"))


def embedded(png: bytes, title: str) -> dg.MarkdownMetadataValue:
    """The content of a PNG file, inside of the metadata."""
    data = base64.b64encode(png).decode("ascii")
    return dg.MetadataValue.md(f"![{title}](data:image/png;base64,{data})")


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue | str:
    """Rows of equal keys as a table; a dash when there are none."""
    if not rows:
        return "–"
    kinds = {bool: "bool", int: "int", float: "float"}
    columns = [
        dg.TableColumn(name, kinds.get(type(value), "string")) for name, value in rows[0].items()
    ]
    records = [dg.TableRecord(dict(row)) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))
