"""What a chart shows. Colours are Okabe and Ito's, for any eye; markers repeat the distinction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mom_pipeline.core.types import Array

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, "#56B4E9", "#E69F00", "#000000", "#8C8C8C")
# On a logarithmic axis the labels of neighbours closer than this run into each other.
_TICK_RATIO = 1.4
_BINS, _X_TICKS = 30, 8

# Name of a line -> its positions and values.
Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]
# Position on an axis -> its label.
Ticks = Mapping[float, str]


@dataclass(frozen=True)
class Axes:
    """Title, labels and ticks."""

    title: str
    x: str
    y: str
    x_ticks: Ticks = field(default_factory=dict)  # names by position; none for round numbers
    x_from: float | None = None  # where the x axis begins; None for the first position
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Lines:
    """Named lines. bold: name of the thick one."""

    axes: Axes
    series: Series
    bold: str = ""


@dataclass(frozen=True)
class Bars:
    """Bars side by side, in at most two layers one above the other."""

    axes: Axes
    edges: Array  # (2, n) left and right end of each bar
    layers: Mapping[str, Array]  # name -> (n,) heights
    below: float | None = None  # smaller bars look different; a line is drawn at it


Chart = Lines | Bars


def bars(
    values: Any, title: str, x: str, y: str, *, log: bool = False, below: float | None = None
) -> Bars:
    """One bar for each value, numbered from 1. below: see `Bars`."""
    heights = np.asarray(values, dtype=float)
    axes = Axes(title, f"{x} (n = {len(heights):,})", y, log_y=log and bool(np.any(heights > 0)))
    return Bars(axes, _beside(np.arange(1, len(heights) + 1)), {"": heights}, below)


def histogram(values: Any, title: str, x: str) -> Bars:
    """How often values occur, in some thirty bins."""
    counts, edges = np.histogram(values, bins=_BINS)
    ends = np.array([edges[:-1], edges[1:]])
    return Bars(Axes(title, x, f"users (n = {len(values):,})"), ends, {"": counts.astype(float)})


def stacked_bars(
    x: Sequence[Any], series: Mapping[str, Sequence[float]], title: str, x_label: str, y: str
) -> Bars:
    """Bars over the same positions, one series above the other."""
    layers = {name: np.asarray(values, dtype=float) for name, values in series.items()}
    return Bars(Axes(title, x_label, y, _some_of(x)), _beside(np.arange(len(x))), layers)


def curves(
    x: Sequence[Any], series: Mapping[str, Sequence[float]], title: str, x_label: str, y: str
) -> Lines:
    """Several lines over the same positions, which are spaced evenly."""
    lines = {name: (range(len(x)), values) for name, values in series.items()}
    return Lines(Axes(title, x_label, y, _some_of(x)), lines)


def xy_curves(series: Series, title: str, x: str, y: str, *, log: bool = False) -> Lines:
    """Several lines, each with positions of its own. log: both axes are logarithmic."""
    return Lines(Axes(title, x, y, log_x=log, log_y=log), series)


def spaced(ticks: Sequence[int]) -> Ticks:
    """Return the ticks of a logarithmic axis that have room for a label, the largest among them."""
    shown: list[int] = []
    for k in reversed(ticks):
        if not shown or shown[-1] >= _TICK_RATIO * k:
            shown.append(k)
    return {float(k): str(k) for k in shown}


def _beside(positions: Array) -> Array:
    return np.array([positions - 0.4, positions + 0.4])


def _some_of(names: Sequence[Any]) -> Ticks:
    """Name some of the positions 0, 1, ... on the x axis."""
    shown = range(0, len(names), max(1, -(-len(names) // _X_TICKS)))
    return {float(position): str(names[position]) for position in shown}
