"""The paper's Figure 2: the precision-recall curve and MAP at every cut-off."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mom_pipeline.comparison.results import Comparison, MethodResult
from mom_pipeline.core.files import writing
from mom_pipeline.pictures import COLOURS, MARKERS, STROKES, drawn

_SIZE, _PANEL_SIZE, _DPI = (11.0, 4.6), (5.2, 4.4), 110
# On a logarithmic axis the labels of neighbours closer than this run into each other.
_TICK_RATIO = 1.4


def figure_2(comparison: Comparison) -> Figure:
    """Draw both panels, one line per method that has a result; the reference is the thick one."""
    figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _draw_precision_recall(left, comparison)
    _draw_map(right, comparison)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    return figure


def figure_2_panels(comparison: Comparison) -> tuple[Figure, Figure]:
    """The two panels as figures of their own, each with its legend, for narrow pages."""
    precision_recall, map_at = (
        Figure(figsize=_PANEL_SIZE, dpi=_DPI, layout="constrained") for _ in range(2)
    )
    for figure, draw in ((precision_recall, _draw_precision_recall), (map_at, _draw_map)):
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        draw(axes, comparison)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8
        )
    return precision_recall, map_at


def _draw_precision_recall(axes: Axes, comparison: Comparison) -> None:
    n = f"n = {comparison.n_users:,} users"
    _label(axes, f"Precision–recall, {comparison.data.name}", f"mean recall@τ ({n})",
           f"mean precision@τ ({n})")  # fmt: skip
    for place, result in enumerate(comparison.results):
        if not result.failure:
            look = _look(place, result, comparison)
            axes.plot(result.means["recall"], result.means["precision"], **look)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _draw_map(axes: Axes, comparison: Comparison) -> None:
    n = f"n = {comparison.n_users:,} users"
    _label(axes, f"MAP@τ, {comparison.data.name}", "cut-off τ, items in the list", f"MAP@τ ({n})")
    for place, result in enumerate(comparison.results):
        if not result.failure:
            axes.plot(comparison.cutoffs, result.means["map"], **_look(place, result, comparison))
    axes.set_xscale("log")
    shown = _ticks(comparison.cutoffs)
    axes.set_xticks(shown, [str(k) for k in shown])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=0)


def _look(place: int, result: MethodResult, comparison: Comparison) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        # Another stroke when a colour comes again.
        "linestyle": STROKES[(place + place // len(COLOURS)) % len(STROKES)],
        "linewidth": 2.6 if result.name == comparison.reference else 1.3,
        "markersize": 4.5,
        "label": result.title,
    }


def write_figure_2(comparison: Comparison, path: Path) -> None:
    """Write the figure to a PNG file."""
    with writing(path) as out:
        out.write(drawn(figure_2(comparison), "png"))


def _ticks(cutoffs: tuple[int, ...]) -> list[int]:
    """Return the cut-offs that have room for a label, the longest among them."""
    shown: list[int] = []
    for k in reversed(cutoffs):
        if not shown or shown[-1] >= _TICK_RATIO * k:
            shown.append(k)
    return shown


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    # A dollar sign would begin a formula.
    axes.set_title(title.replace("$", r"\$"), fontsize=10, loc="left")
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
