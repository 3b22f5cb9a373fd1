"""Charts: what they show, and as SVG, written directly: .1 ms and 2 kB each.

Colours are Okabe and Ito's, for any eye; markers repeat the distinction.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from mom_pipeline.core.types import Array

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, "#56B4E9", "#E69F00", "#000000", "#8C8C8C")
# On a logarithmic axis the labels of neighbours closer than this run into each other.
_TICK_RATIO = 1.4
_BINS, _NAMES = 30, 8
_WIDTH, _HEIGHT = 480, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 10, 30, 46
_LEGEND_LINE, _LETTER = 16, 6.2
_DASHES = ("", "6 3", "6 3 1 3", "1 3")
# Outlines around a point, of about equal area.
_MARKERS = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "m-2.6-2.6h5.2v5.2h-5.2z",
    "m0-3.6l3.4 6h-6.8z",
    "m0-3.6l3.6 3.6l-3.6 3.6l-3.6-3.6z",
    "m0 3.6l3.4-6h-6.8z",
)
_HATCH = (
    '<pattern id="h" width="6" height="6" patternUnits="userSpaceOnUse" '
    f'patternTransform="rotate(45)"><rect width="6" height="6" fill="{VERMILION}"/>'
    '<path d="M0 0V6" stroke="#fff" stroke-width="2"/></pattern>'
)
_FILLS = (BLUE, "url(#h)")
_HEADROOM = 1.05
# Values that differ by less stand at one place: no round number lies between them.
_RESOLUTION, _TINY = 1e-9, 1e-300
_X_TICKS, _Y_TICKS = 6, 5

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
    shown = range(0, len(names), max(1, -(-len(names) // _NAMES)))
    return {float(position): str(names[position]) for position in shown}


def svg(*charts: Chart) -> bytes:
    """The content of a file, several charts one below the other; letters stay letters."""
    drawn, top = [], 0
    for chart in charts:
        body, height = _lines(chart) if isinstance(chart, Lines) else _bars(chart)
        drawn.append(f'<g transform="translate(0 {top})">{body}</g>')
        top += height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" '
        f'viewBox="0 0 {_WIDTH} {top}" font-family="DejaVu Sans, Verdana, sans-serif" '
        'font-size="10"><rect width="100%" height="100%" fill="#fff"/>'
    )
    return f"{head}{''.join(drawn)}</svg>".encode()


def data_url(chart: Chart) -> str:
    """The picture as an address of its own: sharp on any screen and on paper."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg(chart)).decode('ascii')}"


@dataclass(frozen=True)
class _Scale:
    """From values to pixels."""

    low: float
    high: float
    log: bool
    first: float
    last: float

    def __call__(self, value: float) -> str:
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        pixel = self.first + (value - low) / (high - low) * (self.last - self.first)
        return f"{pixel:.1f}".removesuffix(".0")

    def ticks(self, at_most: int) -> dict[float, str]:
        values = _decades if self.log else _round
        return {value: _number(value) for value in values(self.low, self.high, at_most)}


def _scale(values: Array, first: float, last: float, *, log: bool, low: float | None) -> _Scale:
    """A scale that holds all values; from `low` on, where that is given."""
    known = values[np.isfinite(values) & (values > _TINY if log else True)]
    least, most = (float(known.min()), float(known.max())) if len(known) else (float(log), 1.0)
    if log:
        return _Scale(least / 1.2, most * 1.2, True, first, last)
    least = least if low is None else min(low, least)
    if most - least <= max(_RESOLUTION * abs(most), _TINY):
        most = least + (abs(least) if abs(least) > _TINY else 1)
    return _Scale(least, most, False, first, last)


def _round(low: float, high: float, at_most: int) -> list[float]:
    """Round numbers between two values, not more than so many."""
    rough = (high - low) / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    return [n * step for n in range(math.ceil(low / step - 1e-9), int(high / step + 1e-9) + 1)]


def _decades(low: float, high: float, at_most: int) -> list[float]:
    """Powers of ten between two values; also their double and fivefold where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5), range(1, 10)):
        ticks = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
        if len(ticks) > 1:
            return ticks[:: -(-len(ticks) // at_most)]
    return [low, high]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e7 else f"{value:.4g}"


def _frame(
    axes: Axes, x: _Scale, y: _Scale, marks: Sequence[str], legend: Sequence[tuple[str, str]]
) -> tuple[str, int]:
    """Title, axes and labels around the marks, below them names and their samples; the height."""
    rows = _legend_rows([name for name, _ in legend]) if len(legend) > 1 else []
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    x_ticks, y_ticks = axes.x_ticks or x.ticks(_X_TICKS), y.ticks(_Y_TICKS)
    middle = (_LEFT + right) / 2, (_TOP + bottom) / 2
    parts = [
        f'<text x="{_LEFT}" y="18" font-size="13">{escape(axes.title)}</text>',
        *marks,
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}'
        + "".join(f"M{x(v)} {bottom}v4" for v in x_ticks)
        + "".join(f"M{_LEFT} {y(v)}h-4" for v in y_ticks)
        + '" fill="none" stroke="#000" stroke-width=".8"/>',
        '<g text-anchor="middle">',
        *(f'<text x="{x(v)}" y="{bottom + 15}">{escape(t)}</text>' for v, t in x_ticks.items()),
        f'<text x="{middle[0]:g}" y="{bottom + 34}" font-size="11">{escape(axes.x)}</text>',
        f'<text transform="translate(13 {middle[1]:g})rotate(-90)" font-size="11">'
        f'{escape(axes.y)}</text></g><g text-anchor="end">',
        *(f'<text x="{_LEFT - 7}" y="{y(v)}" dy="3.5">{t}</text>' for v, t in y_ticks.items()),
        "</g>",
    ]
    for (row, left), (name, sample) in zip(rows, legend, strict=False):
        place = f"translate({left:g} {_HEIGHT + _LEGEND_LINE * row + 4})"
        text = f'<text x="30" dy="3.5">{escape(name)}</text>'
        parts.append(f'<g transform="{place}">{sample}{text}</g>')
    return "".join(parts), _HEIGHT + _LEGEND_LINE * len({row for row, _ in rows})


def _legend_rows(names: Sequence[str]) -> list[tuple[int, float]]:
    """Row and left end of each name: a new row where the line is full."""
    places, row, left = [], 0, float(_LEFT)
    for name in names:
        width = 44 + _LETTER * len(name)
        if left + width > _WIDTH and left > _LEFT:
            row, left = row + 1, float(_LEFT)
        places.append((row, left))
        left += width
    return places


def _lines(chart: Lines) -> tuple[str, int]:
    axes, margin = chart.axes, 10
    xs = np.array([x for line, _ in chart.series.values() for x in line], dtype=float)
    ys = np.array([y for _, line in chart.series.values() for y in line], dtype=float)
    x = _scale(xs, _LEFT + margin, _WIDTH - _RIGHT - margin, log=axes.log_x, low=axes.x_from)
    low = None if axes.log_y else 0.0
    y = _scale(ys, _HEIGHT - _BOTTOM, _TOP + margin, log=axes.log_y, low=low)
    marks, legend = [], []
    for number, (name, (line_x, line_y)) in enumerate(chart.series.items()):
        points, path, pen = [], "", "M"
        for value_x, value_y in zip(line_x, line_y, strict=True):
            # A line ends where there is no value.
            is_shown = math.isfinite(value_y) and not (y.log and value_y <= _TINY)
            if is_shown:
                points.append(f"{x(value_x)} {y(value_y)}")
                path += pen + points[-1]
            pen = "L" if is_shown else "M"
        marks.append(_line(number, path, points, bold=name == chart.bold))
        legend.append((name, _line(number, "M0 0H24", ["12 0"], bold=name == chart.bold)))
    return _frame(axes, x, y, marks, legend)


def _line(number: int, path: str, points: Sequence[str], *, bold: bool) -> str:
    """A path with a marker at every point; another stroke when a colour recurs."""
    colour, marker = COLOURS[number % len(COLOURS)], _MARKERS[number % len(_MARKERS)]
    dash = _DASHES[(number + number // len(COLOURS)) % len(_DASHES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{2.6 if bold else 1.3}"'
        f'{dashes}/><path d="{"".join(f"M{at}{marker}" for at in points)}" fill="{colour}"/>'
    )


def _bars(chart: Bars) -> tuple[str, int]:
    axes, below, layers = chart.axes, chart.below, list(chart.layers.values())
    top = sum(layers, np.zeros(chart.edges.shape[1]))
    shown = top if below is None else np.append(top, below)
    shown, low = (shown, None) if axes.log_y else (shown * _HEADROOM, 0.0)
    x = _scale(chart.edges.ravel(), _LEFT + 6, _WIDTH - _RIGHT - 6, log=False, low=None)
    y = _scale(shown, _HEIGHT - _BOTTOM, _TOP, log=axes.log_y, low=low)
    if below is not None:
        layers = [np.where(top >= below, top, 0), np.where(top < below, top, 0)]
    marks, floor = [_HATCH] if len(layers) > 1 else [], np.zeros(len(top))
    for fill, layer in zip(_FILLS, layers, strict=False):
        boxes = ""
        for left, right, foot, height in zip(*chart.edges, floor, layer, strict=True):
            if height > 0:
                start = y(foot if foot > 0 else y.low)
                boxes += f"M{x(left)} {start}V{y(foot + height)}H{x(right)}V{start}z"
        marks.append(f'<path d="{boxes}" fill="{fill}"/>')
        floor = floor + layer
    if below is not None:
        line = f"M{_LEFT} {y(below)}H{_WIDTH - _RIGHT}"
        marks.append(f'<path d="{line}" stroke="#000" stroke-width=".8" stroke-dasharray="4 3"/>')
    samples = [f'<rect x="4" y="-5" width="18" height="10" fill="{fill}"/>' for fill in _FILLS]
    return _frame(axes, x, y, marks, list(zip(chart.layers, samples, strict=False)))
