"""The page in a real browser: on a phone, on a desk, in the dark and on paper."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from mom_pipeline_tests.accessibility import serious_findings


@pytest.fixture(scope="module", params=[400, 1400])
def opened(
    request: pytest.FixtureRequest,
    browser: Browser,
    report_html: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Page, list[str]]]:
    """The page at a width, and the addresses that it asked for."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_html, encoding="utf-8")
    # The policy of the page lets no script in, not even one that judges it.
    size = {"width": request.param, "height": 900}
    context = browser.new_context(viewport=size, bypass_csp=True)
    page, asked = context.new_page(), []
    page.on("request", lambda r: asked.append(r.url))
    page.on("dialog", lambda d: asked.append(f"dialog {d.message}"))
    page.goto(path.as_uri())
    yield page, asked
    context.close()


def fits(page: Page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_is_cut_off(opened: tuple[Page, list[str]]):
    page, _ = opened
    assert fits(page)
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('h1, h2, p, figure, img, dl, nav, .scroll')]
               .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5
                         || e.getBoundingClientRect().left < -0.5)
               .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert beyond == []
    hidden = page.evaluate(
        """() => [...document.querySelectorAll('table')].filter(t =>
               t.scrollWidth > t.parentElement.clientWidth + 1
               && getComputedStyle(t.parentElement).overflowX !== 'auto').length"""
    )
    assert hidden == 0


def test_every_picture_is_decoded_and_nothing_is_asked_for(opened: tuple[Page, list[str]]):
    page, asked = opened
    page.evaluate("document.querySelectorAll('details').forEach(folded => folded.open = true)")
    sizes = page.evaluate(
        "() => Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
    )
    assert len(sizes) >= 11
    assert min(sizes) > 100
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert sum(url.startswith("file:") for url in asked) == 1


def test_the_contents_stay_in_sight_of_a_page_that_ends(opened: tuple[Page, list[str]]):
    page, _ = opened
    page.evaluate("document.querySelector('#data').scrollIntoView({behavior: 'instant'})")
    contents = page.locator(".contents").bounding_box()
    assert contents
    assert -1 <= contents["y"] < 100
    page.evaluate("document.querySelectorAll('details').forEach(folded => folded.open = false)")
    if page.viewport_size == {"width": 1400, "height": 900}:
        assert page.evaluate("document.documentElement.scrollHeight") <= 5_400  # with its long ids


def test_everybody_can_read_it_in_the_light_and_in_the_dark(opened: tuple[Page, list[str]]):
    page, _ = opened
    assert page.locator("img:not([alt]), nav:not([aria-label])").count() == 0
    assert serious_findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious_findings(page) == []
    background, ink = page.evaluate(
        """['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name]
               .match(/\\d+/g).reduce((sum, value) => sum + Number(value), 0))"""
    )
    assert background < 100
    assert ink > 600
    assert "invert" in page.locator("img").first.evaluate("i => getComputedStyle(i).filter")


def test_on_paper_it_is_as_wide_as_the_sheet(opened: tuple[Page, list[str]]):
    page, _ = opened
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("img").first.evaluate("i => getComputedStyle(i).filter") == "none"
    page.set_viewport_size({"width": 680, "height": 900})  # A4 less its margins, in CSS pixels
    assert fits(page)
    assert page.locator("nav").is_hidden()
