"""Figures of Dagster's pages, the report and the commands.

Colours are Okabe and Ito's, which people with any kind of colour vision distinguish; markers
repeat the distinction. Every axis names its unit, and n where it counts something.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
_PANEL_SIZE, _PANELS_SIZE, _PANEL_DPI = (5.2, 4.4), (11.0, 4.6), 110
# On a logarithmic axis the labels of neighbours closer than this run into each other.
_TICK_RATIO = 1.4
_BINS = 30
_X_TICKS = 8
_HEADROOM = 1.2

# Name of a line -> its positions and values.
Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]


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
    positions = list(range(len(x)))
    lines = {name: (positions, values) for name, values in series.items()}
    figure = xy_curves(lines, title=title, x=x_label, y=y)
    _label_positions(figure.axes[0], x)
    figure.axes[0].set_xlim(-0.4, max(len(x) - 0.6, 0.4))
    return figure


def xy_curves(series: Series, *, title: str, x: str, y: str, log: bool = False) -> Figure:
    """Several lines, each with positions of its own. log: both axes are logarithmic."""
    figure, axes = blank(title, x, y)
    draw_lines(axes, series)
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=8)
    return figure


@dataclass(frozen=True)
class Panel:
    """Lines on axes of their own.

    bold: name of the thick line.  log_ticks: positions on a logarithmic x axis to label; none
    for an axis that begins at 0.
    """

    title: str
    x: str
    y: str
    series: Series
    bold: str = ""
    log_ticks: Sequence[int] = ()


def panels(*drawn_panels: Panel) -> Figure:
    """Panels side by side with one legend: on the right, or below a single panel."""
    single = len(drawn_panels) == 1
    size = _PANEL_SIZE if single else _PANELS_SIZE
    figure = Figure(figsize=size, dpi=_PANEL_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(1, len(drawn_panels), squeeze=False)[0]
    for axes, panel in zip(all_axes, drawn_panels, strict=True):
        _draw_panel(axes, panel)
    look: dict[str, Any] = (
        {"loc": "outside lower center", "ncols": 3, "fontsize": 8}
        if single
        else {"loc": "outside right center", "fontsize": 9}
    )
    figure.legend(*all_axes[0].get_legend_handles_labels(), frameon=False, **look)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    # A dollar sign would begin a formula.
    _label(axes, panel.title.replace("$", r"\$"), panel.x, panel.y)
    axes.grid(alpha=0.25)
    draw_lines(axes, panel.series, panel.bold)
    if panel.log_ticks:
        axes.set_xscale("log")
        shown = _spaced(panel.log_ticks)
        axes.set_xticks(shown, [str(k) for k in shown])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def draw_lines(axes: Axes, series: Series, bold: str = "") -> None:
    """Draw named lines that differ in colour, marker and stroke."""
    for number, (name, (xs, ys)) in enumerate(series.items()):
        axes.plot(
            xs,
            ys,
            label=name,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            # Another stroke when a colour comes again.
            linestyle=STROKES[(number + number // len(COLOURS)) % len(STROKES)],
            markersize=4.0,
            linewidth=2.6 if name == bold else 1.3,
        )


def _spaced(ticks: Sequence[int]) -> list[int]:
    """Return the ticks that have room for a label, the largest among them."""
    shown: list[int] = []
    for k in reversed(ticks):
        if not shown or shown[-1] >= _TICK_RATIO * k:
            shown.append(k)
    return shown


def stacked_bars(
    x: Sequence[Any], series: Mapping[str, Sequence[float]], *, title: str, x_label: str, y: str
) -> Figure:
    """Bars over the same positions, one series above the other."""
    figure, axes = blank(title, x_label, y)
    floor = np.zeros(len(x))
    for number, (name, values) in enumerate(series.items()):
        look: dict[str, Any] = {"hatch": "///", "edgecolor": "white"} if number else {}
        colour = COLOURS[number % len(COLOURS)]
        axes.bar(range(len(x)), values, bottom=floor, color=colour, label=name, linewidth=0, **look)
        floor = floor + np.asarray(values, dtype=float)
    _label_positions(axes, x)
    axes.set_ylim(top=_HEADROOM * max(float(floor.max(initial=0)), 1.0))
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=len(series))
    return figure


def blank(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """Labelled axes with nothing in them yet."""
    figure = Figure(figsize=_SIZE, dpi=_DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.15, 0.2, 0.82, 0.67))
    _label(axes, title, x, y)
    # Most of the time of a small picture goes into the labels of its ticks.
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    return figure, axes


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _label_positions(axes: Axes, names: Sequence[Any]) -> None:
    """Name some of the positions 0, 1, ... on the x axis."""
    shown = range(0, len(names), max(1, -(-len(names) // _X_TICKS)))
    axes.set_xticks(shown, [str(names[position]) for position in shown])


def drawn(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """The content of a file. Equal figures give equal bytes; letters in SVG stay letters."""
    out = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mom-pipeline"}):
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()
