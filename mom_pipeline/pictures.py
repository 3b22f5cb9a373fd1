"""Small pictures for people: the same drawing for Dagster's pages and for the report.

Colours are Okabe and Ito's, which people with any kind of colour vision tell apart; markers say
the same once more. Every axis names its unit, and n where it counts something.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, "#56B4E9", "#E69F00", "#000000", "#8C8C8C")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")
STROKES = ("-", "--", "-.", ":")
_SIZE, _DPI = (5.0, 2.6), 80
_BINS = 30
_X_TICKS = 8
_HEADROOM = 1.2


def bars(
    values: Any, *, title: str, x: str, y: str, log: bool = False, below: float | None = None
) -> Figure:
    """One bar for each value, numbered from 1.

    below: bars smaller than this are drawn in another colour and hatched, above a line at it.
    """
    values = np.asarray(values, dtype=float)
    figure, axes = blank(title, f"{x} (n = {len(values):,})", y)
    drawn = axes.bar(np.arange(1, len(values) + 1), values, color=BLUE)
    if below is not None:
        axes.axhline(below, color="black", linewidth=0.8, linestyle="--")
        for bar, value in zip(drawn, values, strict=True):
            if value < below:
                bar.set(facecolor=VERMILION, hatch="///", edgecolor="white")
    if log and np.any(values > 0):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:.0e}")
        axes.yaxis.set_minor_locator(NullLocator())
    return figure


def histogram(values: Any, *, title: str, x: str, y: str = "users") -> Figure:
    """How often values occur, in some thirty bins."""
    figure, axes = blank(title, x, f"{y} (n = {len(values):,})")
    axes.hist(values, bins=_BINS, color=BLUE)
    return figure


def curves(
    x: Sequence[Any], series: Mapping[str, Sequence[float]], *, title: str, x_label: str, y: str
) -> Figure:
    """Several lines over the same positions, which are spaced evenly."""
    places = np.arange(len(x))
    lines = {name: (places.tolist(), values) for name, values in series.items()}
    figure = xy_curves(lines, title=title, x=x_label, y=y)
    axes = figure.axes[0]
    shown = places[:: max(1, -(-len(places) // _X_TICKS))]
    axes.set_xticks(shown, [str(x[place]) for place in shown])
    axes.set_xlim(-0.4, max(len(x) - 0.6, 0.4))
    return figure


def xy_curves(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str, x: str, y: str
) -> Figure:
    """Several lines, each with positions of its own."""
    figure, axes = blank(title, x, y)
    for place, (name, (xs, ys)) in enumerate(series.items()):
        axes.plot(
            xs,
            ys,
            label=name,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            linestyle=STROKES[place % len(STROKES)],
            markersize=3.5,
            linewidth=1.3,
        )
    axes.set_ylim(bottom=0)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=8)
    return figure


def stacked_bars(
    x: Sequence[Any], series: Mapping[str, Sequence[float]], *, title: str, x_label: str, y: str
) -> Figure:
    """Bars over the same positions, one series above the other."""
    figure, axes = blank(title, x_label, y)
    places, floor = np.arange(len(x)), np.zeros(len(x))
    for place, (name, values) in enumerate(series.items()):
        look: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "label": name}
        axes.bar(places, values, bottom=floor, hatch="///" if place else None,
                 edgecolor="white" if place else None, linewidth=0, **look)  # fmt: skip
        floor = floor + np.asarray(values, dtype=float)
    shown = places[:: max(1, -(-len(places) // _X_TICKS))]
    axes.set_xticks(shown, [str(x[place]) for place in shown])
    axes.set_ylim(top=_HEADROOM * max(float(floor.max(initial=0)), 1.0))
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=len(series))
    return figure


def blank(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """Labelled axes with nothing in them yet."""
    figure = Figure(figsize=_SIZE, dpi=_DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.15, 0.2, 0.82, 0.67))
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    # Most of the time of a small picture goes into the labels of its ticks.
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def drawn(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """The content of a file. Equal figures give equal bytes; letters in SVG stay letters."""
    out = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mom-pipeline"}):
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()
