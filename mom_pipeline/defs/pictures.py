"""Small pictures and tables for the metadata of a day."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

_SIZE, _DPI = (5.0, 2.4), 80
_BLUE, _GREY = "#3454d1", "#9aa0a6"


def bars(values: Any, *, title: str, x: str, y: str, log: bool = False) -> dg.MarkdownMetadataValue:
    """One bar for each value, numbered from 1."""
    figure, axes = _blank(title, x, y)
    axes.bar(np.arange(1, len(values) + 1), values, color=_BLUE)
    if log and np.any(np.asarray(values) > 0):
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
    return _picture(figure, title)


def histogram(values: Any, *, title: str, x: str, y: str = "users") -> dg.MarkdownMetadataValue:
    """How often values occur, in some thirty bins."""
    figure, axes = _blank(title, x, y)
    axes.hist(values, bins=30, color=_BLUE)
    return _picture(figure, title)


def curves(
    x: Sequence[Any], series: Mapping[str, Sequence[float]], *, title: str, x_label: str, y: str
) -> dg.MarkdownMetadataValue:
    """Several lines over the same positions; the first is the one to look at."""
    figure, axes = _blank(title, x_label, y)
    places = np.arange(len(x))
    for (name, values), colour in zip(series.items(), (_BLUE, _GREY), strict=False):
        axes.plot(places, values, marker="o", markersize=3, label=name, color=colour)
    shown = places[:: max(1, len(places) // 8)]
    axes.set_xticks(shown, [str(x[place]) for place in shown])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=7)
    return _picture(figure, title)


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


def _blank(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, dpi=_DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.13, 0.2, 0.84, 0.66))
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=7)
    # Most of the time of a small picture goes into the labels of its ticks.
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _picture(figure: Figure, title: str) -> dg.MarkdownMetadataValue:
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return embedded(out.getvalue(), title)


def embedded(png: bytes, title: str) -> dg.MarkdownMetadataValue:
    """The content of a PNG file, inside of the metadata."""
    data = base64.b64encode(png).decode("ascii")
    return dg.MetadataValue.md(f"![{title}](data:image/png;base64,{data})")
