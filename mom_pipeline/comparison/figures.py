"""The paper's Figure 2: the precision-recall curve and MAP at every cut-off."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mom_pipeline.comparison.results import Comparison
from mom_pipeline.pictures import COLOURS, MARKERS, STROKES, drawn
from mom_pipeline.storage.atomic import writing

_SIZE, _DPI = (11.0, 4.6), 110
# On a logarithmic axis the labels of neighbours closer than this run into each other.
_TICK_RATIO = 1.4


def figure_2(comparison: Comparison) -> Figure:
    """Draw both panels, one line per method that has a result; the reference is the thick one."""
    figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    n = f"n = {comparison.n_users:,} users"
    _label(left, f"Precision–recall, {comparison.data.name}", f"mean recall@τ ({n})",
           f"mean precision@τ ({n})")  # fmt: skip
    _label(right, f"MAP@τ, {comparison.data.name}", "cut-off τ, items in the list", f"MAP@τ ({n})")
    for place, result in enumerate(comparison.results):
        if result.failure:
            continue
        look = {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "linestyle": STROKES[place % len(STROKES)],
            "linewidth": 2.6 if result.name == comparison.reference else 1.3,
            "markersize": 4.5,
            "label": result.title,
        }
        left.plot(result.means["recall"], result.means["precision"], **look)
        right.plot(comparison.cutoffs, result.means["map"], **look)
    right.set_xscale("log")
    right.set_xticks(_ticks(comparison.cutoffs), map(str, _ticks(comparison.cutoffs)))
    right.xaxis.set_minor_locator(NullLocator())
    for axes in (left, right):
        axes.set_ylim(bottom=0)
    left.set_xlim(left=0)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    return figure


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
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
