"""Lines as PNG, for files that stand alone: the figures of `compare`, `tune` and the benches."""

import io
from typing import Any

import matplotlib.axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from mom_pipeline.pictures.charts import COLOURS, Axes, Lines

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")
_STROKES = ("-", "--", "-.", ":")
_SIZE, _DPI = (5.0, 2.6), 80
_PANELS_SIZE, _PANELS_DPI = (11.0, 4.6), 110


def png(*charts: Lines) -> bytes:
    """The content of a file: one chart, or several side by side with one legend on the right."""
    several = len(charts) > 1
    figure = Figure(_PANELS_SIZE if several else _SIZE, _PANELS_DPI if several else _DPI)
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(1, len(charts), squeeze=False)[0]
    for panel, chart in zip(panels, charts, strict=True):
        _draw_lines(panel, chart)
        _label(panel, chart.axes)
    if several:
        names = panels[0].get_legend_handles_labels()
        figure.legend(*names, frameon=False, loc="outside right center", fontsize=9)
    elif len(charts[0].series) > 1:
        panels[0].legend(frameon=False, fontsize=8)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _draw_lines(panel: matplotlib.axes.Axes, chart: Lines) -> None:
    """Draw named lines that differ in colour, marker and stroke."""
    for number, (name, (xs, ys)) in enumerate(chart.series.items()):
        panel.plot(
            xs,
            ys,
            label=name,
            color=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            # Another stroke when a colour comes again.
            linestyle=_STROKES[(number + number // len(COLOURS)) % len(_STROKES)],
            markersize=4.0,
            linewidth=2.6 if name == chart.bold else 1.3,
        )


def _label(panel: matplotlib.axes.Axes, axes: Axes) -> None:
    # A dollar sign would begin a formula.
    panel.set_title(axes.title.replace("$", r"\$"), fontsize=10, loc="left")
    panel.set_xlabel(axes.x, fontsize=9)
    panel.set_ylabel(axes.y, fontsize=9)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25)
    scales: dict[str, Any] = {"xscale": axes.log_x, "yscale": axes.log_y}
    panel.set(**{name: "log" for name, log in scales.items() if log})
    if not axes.log_y:
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_locator(MaxNLocator(5))
    if axes.x_ticks:
        panel.set_xticks(list(axes.x_ticks), list(axes.x_ticks.values()))
        panel.xaxis.set_minor_locator(NullLocator())
    if axes.x_from is not None:
        panel.set_xlim(left=axes.x_from)
