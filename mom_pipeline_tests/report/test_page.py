"""What the page says, and that nobody else's text becomes markup."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from mom_pipeline.comparison.tables import Table
from mom_pipeline.core.evaluation.theorem1 import theorem_1
from mom_pipeline.report.data import ReportData
from mom_pipeline.report.page import environment, hits, prose, render, verdict

from .conftest import HOSTILE


def with_figures(data: ReportData, **values: object) -> ReportData:
    return replace(data, figures=data.figures.model_copy(update=values))


class Reader(HTMLParser):
    """Collects the elements, their attributes and the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def test_texts_of_others_stay_texts(report_html: str):
    page = read(report_html)
    assert "script" not in {name for name, _ in page.elements}
    assert "b" not in {name for name, _ in page.elements}
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert sum(HOSTILE in text for text in page.texts) >= 8 + 8 + 1 + 4


def test_every_section_has_its_figures(report_html: str):
    page = read(report_html)
    text, ids = " ".join(" ".join(page.texts).split()), [a.get("id") for _, a in page.elements]
    sections = ("people", "lists", "change", "evaluation", "shown", "comparison", "components")
    sections += ("moments", "drift", "bounds", "data", "origin")
    assert [name for name in ids if name] == list(sections)
    links = {a["href"] for name, a in page.elements if name == "a" and "href" in a}
    assert links == {f"#{name}" for name in sections} | {"index.html"}
    for words in ("Δ Recall [95 %]", "Eigenvalue 8", "no user", "3.25%", "model.n_components"):
        assert words in text, words
    assert text.count(" weak") >= 3
    assert "On 3 of 8 components" in text
    assert "61% of the items are in some list" in text
    assert "fills 42% of the lists, and is 30% of what people take" in text
    assert "lean more to what is popular than people do" in text
    assert "75% of its lists are the same as with 2024-03-21-abc" in text
    images = [attributes for name, attributes in page.elements if name == "img"]
    assert len(images) >= 11
    assert all(attributes["alt"] for attributes in images)


def test_a_first_day_says_what_is_missing(bare_data: ReportData):
    text = " ".join(read(render(bare_data)).texts)
    assert "There is no comparison up to" in text
    assert "mom-pipeline compare --train-until" in text
    assert "Nothing is evaluated up to" in text
    assert "Not evaluated yet, for want of later days" in text
    assert "No lists of this model are kept" in text
    assert "never was in use" in text


@pytest.mark.parametrize("text", [HOSTILE, "a `code <b>` b"])
def test_escaping(text: str):
    macros = environment().get_template("macros.html").module
    for written in (macros.table(Table(text, [text], [[text]])), prose(text)):
        allowed = {"p", "div", "table", "thead", "tbody", "tr", "th", "td", "code"}
        assert {name for name, _ in read(written).elements} <= allowed
    assert prose("run `x --y` of 2024-03-01").startswith("run <code>x --y</code> of <span")


def test_the_theorem_is_folded_where_it_says_nothing(report_data: ReportData):
    tight = theorem_1(10**13, (16.0, 400.0, 15000.0), np.array([0.5, 0.2]), np.full(2, 0.5))
    for bounds, says_nothing in ((report_data.figures.bounds, True), (None, True), (tight, False)):
        page = read(render(with_figures(report_data, bounds=bounds)))
        text = " ".join(page.texts)
        assert page.texts.count("It says nothing about this model") == int(says_nothing)
        assert ("says nothing" in text) == says_nothing
        assert ("With probability" in text) == (bounds is not None)
        assert ("The theorem is about the paper's plain sums" in text) == (bounds is None)
    assert "of the truth" in text


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.5, "only 50% of the hits of popularity"),
        (1.0, "as many hits as popularity"),
        (1.4, "1.4 times the hits of popularity"),
        (2.1, "twice the hits of popularity"),
        (3.1, "three times the hits of popularity"),
        (2.5, "2.5 times the hits of popularity"),
        (9.0, "9 times the hits of popularity"),
    ],
)
def test_hits_in_words(report_data: ReportData, ratio: float, words: str):
    rows = [
        replace(row, recall=0.1 * (1 if row.ranking == "popularity" else ratio))
        for row in report_data.metrics
    ]
    assert hits(rows) == words


def calm(data: ReportData) -> ReportData:
    """A day on which all is well."""
    sure = tuple(replace(component, agreement=0.99) for component in data.components)
    return replace(data, components=sure)


def test_a_calm_day_asks_for_nothing(report_data: ReportData):
    data = calm(report_data)
    assert verdict(data) == "Four times the hits of popularity; stable; nothing to do."
    days = data.figures.days
    last = days[-1].model_copy(update={"drift": (0.01, 0.3)})
    moved = with_figures(data, days=(*days[:-1], last))
    assert verdict(moved).startswith("Four times the hits of popularity; a component moved by 30%")
    few = [replace(entry, rows_rejected=500) for entry in data.deliveries]
    assert "look at the 16% of the rows" in verdict(replace(data, deliveries=tuple(few)))


def test_doubts_come_before_the_figures(report_data: ReportData):
    assert "3 of 8 components are uncertain; nothing to do" in verdict(report_data)
    weak = tuple(replace(component, agreement=0.1) for component in report_data.components)
    assert "take fewer components" in verdict(replace(report_data, components=weak))
    rows = tuple(
        replace(row, recall=0.1 if row.ranking == "popularity" else 0.05)
        for row in report_data.metrics
    )
    assert "mom-pipeline tune" in verdict(replace(calm(report_data), metrics=rows))
