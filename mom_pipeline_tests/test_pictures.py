"""Pictures for pages: XML with a mark for every value, also where there is little to show."""

import math
from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mom_pipeline import pictures
from mom_pipeline.pictures import bars, curves, data_url, stacked_bars, svg, xy_curves

LABELS = {"title": "T", "x_label": "x", "y": "y"}


def texts(chart: pictures.Chart) -> list[str]:
    root = ElementTree.fromstring(svg(chart))
    return ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")]


def paths(chart: pictures.Chart) -> list[str]:
    root = ElementTree.fromstring(svg(chart))
    return [element.get("d", "") for element in root.iter() if element.tag.endswith("}path")]


def test_a_bar_for_every_value_that_is_not_zero() -> None:
    drawn = paths(bars([3.0, 0.0, 1.0, 2.0], title="T", x="x", y="y"))[0]
    assert drawn.count("z") == 3
    heights = [float(box.split("V")[2].rstrip("z")) - float(box.split("V")[1].split("H")[0])
               for box in drawn.split("M")[1:]]  # fmt: skip
    assert np.allclose(np.array(heights) / heights[0], [1, 1 / 3, 2 / 3], atol=0.01)


def test_bars_below_a_threshold_look_different() -> None:
    chart = bars([0.9, 0.2, 0.8, 0.1], title="T", x="x", y="y", below=0.5)
    usual, low = (path for path in paths(chart) if "z" in path)
    assert (usual.count("z"), low.count("z")) == (2, 2)
    assert b"url(#h)" in svg(chart)


def test_layers_stand_on_each_other() -> None:
    chart = stacked_bars(["a", "b"], {"one": [1, 2], "two": [3, 1]}, **LABELS)
    one, two = (path.split("M")[1] for path in paths(chart) if path.count("z") == 2)
    assert one.split("V")[1].split("H")[0] == two.split("V")[0].split()[1]
    assert {"one", "two", "a", "b"} <= set(texts(chart))


def test_a_line_ends_where_there_is_no_value() -> None:
    chart = curves(range(5), {"a": [1.0, 2.0, math.nan, 4.0, 5.0]}, **LABELS)
    line = paths(chart)[0]
    assert (line.count("M"), line.count("L")) == (2, 2)


def test_every_name_is_text_and_nothing_else() -> None:
    hostile = "<script>&\"'"
    chart = curves([hostile], {hostile: [1.0], "b": [2.0]}, title=hostile, x_label=hostile, y="y")
    assert texts(chart).count(hostile) == 4
    assert data_url(chart).startswith("data:image/svg+xml;base64,")


def test_many_lines_have_a_legend_below() -> None:
    series = {f"method number {n}": ([5, 500], [0.1 * n, 0.2]) for n in range(13)}
    axes = pictures.Axes("T", "x", "y", pictures.spaced([5, 10, 500]), log_x=True)
    chart = pictures.Lines(axes, series, "method number 3")
    assert set(series) <= set(texts(chart))
    root = ElementTree.fromstring(svg(chart))
    assert int(root.get("height", "0")) > 250


@given(st.lists(st.floats(0, 1e9), max_size=40), st.booleans())
def test_whatever_the_numbers_are_the_picture_is_whole(values: Sequence[float], log: bool) -> None:
    for chart in (
        bars(values, title="T", x="x", y="y", log=log),
        curves(range(len(values)), {"a": values}, **LABELS),
        xy_curves({"a": (range(1, len(values) + 1), values)}, title="T", x="x", y="y", log=log),
        pictures.histogram(np.asarray(values, dtype=float), title="T", x="x"),
    ):
        drawn = svg(chart)
        ElementTree.fromstring(drawn)
        assert b"nan" not in drawn
        assert b"inf" not in drawn
