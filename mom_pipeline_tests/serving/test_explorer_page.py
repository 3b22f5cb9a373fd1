"""The explorer in a real browser: a service with the worst ids and names, every width, no mouse."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.groups.apart import bubbles
from mom_pipeline.serving.registry import EvaluatedDay, ModelRegistry
from mom_pipeline_tests.accessibility import serious_findings
from mom_pipeline_tests.serving.conftest import figures, in_use
from mom_pipeline_tests.serving.service import Service, encoded, running_service

HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;<script>alert(2)</script>"
TURNED = "left \u202eright"
LONG = "endless" * 1200
NAME = "A <b>name</b> & more"
MILLISECONDS = 30_000


@dataclass
class Opened:
    """A page, and what went wrong on it."""

    page: Page
    address: str
    asked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def open(self, target: str = "") -> Page:
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/{target}")
        expect(self.page.locator("main h1")).to_be_visible()
        return self.page


@pytest.fixture(scope="module")
def service(make, tmp_path_factory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("explorer")
    moved = {"2024-02-29": (0.2, 0.1, 0.1), "2024-03-01": (0.02, 0.01, 0.03)}
    registry = ModelRegistry(data / "models")
    measured = [("2024-02-29", 0.2, 0.1), ("2024-03-01", 0.21, 0.07)]
    registry.note_evaluated(EvaluatedDay(day, 20, 200, *shares) for day, *shares in measured)
    served = replace(make(1), figures=figures(moved))
    served.user_ids[:3] = [HOSTILE, TURNED, LONG[:1000]]
    # In many lists and histories: all of them shown.
    served.item_ids[np.argsort(-served.model.item_probs.sum(axis=1))[:2]] = [HOSTILE, TURNED]
    registry.promote(registry.add(served), f"passed {HOSTILE}")
    named = {str(y): Item(str(y), group="A group") for y in served.item_ids}
    named[str(served.item_ids[5])] = Item(str(served.item_ids[5]), NAME, "A group")
    Catalogue(named).save(data)
    (data / "reports").mkdir()
    (data / "reports" / "index.html").write_text("<h1>Days</h1>")
    with running_service(data) as running:
        yield running


@pytest.fixture
def opened(browser: Browser, service: Service) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    context.set_default_timeout(MILLISECONDS)
    made = Opened(context.new_page(), f"http://127.0.0.1:{service.port}")
    made.page.on("request", lambda r: made.asked.append(r.url))
    made.page.on("dialog", lambda d: made.problems.append(f"dialog {d.message}"))
    made.page.on("pageerror", lambda error: made.problems.append(str(error)))
    made.page.on("console", lambda m: made.problems.append(m.text) if m.type == "error" else None)
    yield made
    context.close()
    assert made.problems == []
    assert all(url.startswith((made.address, "about:", "data:")) for url in made.asked)


def test_a_person_is_found_and_shown(opened: Opened):
    page = opened.open()
    page.get_by_label("Search a person or an item").fill("user 50")
    page.get_by_role("option", name="Person user 50").click()
    expect(page.locator("h1")).to_have_text("Person user 50")
    history, recommended = page.locator(".card").all()
    assert history.bounding_box()["x"] < recommended.bounding_box()["x"]
    assert history.locator("li").count() > 0
    assert recommended.locator("li").count() == 12
    bars = recommended.locator(".fill").evaluate_all("all => all.map(bar => bar.style.width)")
    assert len(bars) == 12
    assert all(0 < float(width.removesuffix("%")) <= 100 for width in bars)
    recommended.get_by_role("button", name="Why").first.click()
    expect(recommended.get_by_role("heading", name="The score is a sum")).to_be_visible()
    *terms, total = recommended.locator(".sum .number:visible").all_inner_texts()
    assert sum(float(term.replace("−", "-")) for term in terms) == pytest.approx(
        float(total), abs=0.02
    )
    sentences = recommended.locator(".why bdi").all_inner_texts()
    assert len(set(sentences) - {"as no. 1"}) == 1
    recommended.locator("a.item").first.click()
    expect(page.get_by_role("heading", name="What goes with it")).to_be_visible()
    page.go_back()
    expect(page.locator("h1")).to_have_text("Person user 50")


def test_a_basket_for_somebody_new(opened: Opened):
    page = opened.open("#user=user%2050")
    buttons = page.get_by_role("button", name="Put into the basket")
    taken = page.locator("ol a.item").first.inner_text()
    buttons.first.click()
    page.get_by_role("link", name="Basket 1").click()
    expect(page.locator(".chips")).to_contain_text(taken)
    listed = page.locator("ol a.item").all_inner_texts()
    assert len(listed) == 12
    assert taken not in listed
    page.get_by_role("button", name=f"Take out {taken}").click()
    expect(page.locator("main")).to_contain_text("Put items in with +")
    expect(page.locator("#basket-count")).to_be_hidden()


def test_texts_of_others_stay_texts(opened: Opened):
    page = opened.open(f"#user={encoded(HOSTILE)}")
    expect(page.locator("h1")).to_have_text(f"Person {HOSTILE}")
    assert page.locator("main img, main script, main b").count() == 0
    page = opened.open(f"#user={encoded(TURNED)}")
    expect(page.locator("h1")).to_have_text("Person left ⟨U+202E⟩right")
    page = opened.open(f"#item={encoded(HOSTILE)}")
    expect(page.locator("h1")).to_have_text(f"Item {HOSTILE}")
    page = opened.open("#item=1%2F5")
    expect(page.locator("h1")).to_have_text(f"Item {NAME}")
    page = opened.open("#model")
    expect(page.locator("main")).to_contain_text(f"passed {HOSTILE}")
    page.get_by_label("Search a person or an item").fill("<img")
    expect(page.get_by_role("option")).to_have_count(2)
    expect(page.get_by_role("option").first).to_contain_text(HOSTILE)


def test_unknown_people_and_items_are_answered_in_words(opened: Opened):
    page = opened.open(f"#user={encoded('nobody <b>')}")
    expect(page.locator("main")).to_contain_text(
        "does not know the user 'nobody <b>': popular items"
    )
    assert page.locator("ol li").count() > 0
    page = opened.open("#item=nothing")
    expect(page.locator("main")).to_contain_text("the model does not know the item 'nothing'")
    # What the browser itself says of it.
    opened.problems[:] = [text for text in opened.problems if "404" not in text]


def test_the_first_page_shows_people_what_they_took_and_what_they_get(opened: Opened):
    page = opened.open()
    people = page.locator(".three > section")
    expect(people).to_have_count(3)
    for card in people.all():
        taken, listed = card.locator("ul li"), card.locator("ol li")
        assert taken.count() == 5
        assert listed.count() == 5
        assert re.fullmatch(r"\d+ Jan", taken.first.locator("time").inner_text())
        assert listed.locator(".reason").all_inner_texts() == ["liked by people of your kind"] * 5
    before = people.all_inner_texts()
    page.get_by_role("button", name="Show three others").click()
    expect(people.first).not_to_have_text(before[0])
    expect(page.locator(".lead strong")).to_have_text("21 %")
    expect(page.locator("main")).to_contain_text("3.0 times what a list of the most popular")
    assert page.locator(".curve polyline").count() == 2
    groups = page.locator(".groups > li")
    assert groups.count() == 3
    assert groups.first.locator("li").count() == 3
    people.first.locator("h2 a").click()
    expect(page.locator("h1")).to_contain_text("Person")


def test_a_group_on_the_map_and_its_page(opened: Opened):
    page = opened.open("#groups")
    circles = page.locator("a.bubble")
    expect(circles).to_have_count(3)
    name = circles.first.get_attribute("aria-label")
    circles.first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="What sets it apart")).to_be_visible()
    assert page.locator("h1").inner_text().split()[1] == name.split(":")[0].split()[1]
    expect(page.get_by_role("heading", name="What they take next")).to_be_visible()
    page.get_by_label("Taken more by this group than by").select_option(index=1)
    expect(page.get_by_role("heading", name="What the other group takes more")).to_be_visible()
    page = opened.open("#group=99")
    expect(page.locator("main")).to_contain_text("there is no such group")


@pytest.mark.parametrize("K", [8, 100])
def test_the_map_can_be_read(opened: Opened, K: int):
    """Nothing is cut and no label covers another, for few groups and for many."""
    rng = np.random.default_rng(K)
    sizes, O = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(200), K).T
    many = [
        {"number": k + 1, "name": "Wintersport · Accessories · Ski", "size": size, "items": []}
        | {"agreement": None, "by_day": [], "place": place, "people": 9, "change": None}
        for k, (size, place) in enumerate(zip(sizes, bubbles(O, sizes).tolist(), strict=True))
    ]
    answer = {"model": "one", "people": 100, "supported": None, "days": [], "groups": many}
    opened.page.route("**/groups", lambda route: route.fulfill(json=answer))
    page = opened.open("#groups")
    for width in (400, 1024, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        shown = page.evaluate(
            """() => {
              const box = (made) => made.getBoundingClientRect();
              const map = box(document.querySelector('.map'));
              const labels = [...document.querySelectorAll('.bubble span')].map((made) =>
                [made, box(made), box(made.parentElement)]).filter(([, inner]) => inner.width);
              return { height: map.height, labels: labels.length,
                cut: labels.filter(([made, inner, outer]) => made.scrollWidth > outer.width
                  || inner.left < outer.left || inner.right > outer.right
                  || inner.top < outer.top || inner.bottom > outer.bottom).length,
                beyond: [...document.querySelectorAll('.bubble')].map(box).filter((b) =>
                  b.left < map.left - 1 || b.right > map.right + 1
                  || b.bottom > map.bottom + 1).length };
            }"""
        )
        assert (shown["cut"], shown["beyond"]) == (0, 0)
        assert shown["labels"] >= K
        assert shown["height"] <= 1200


def test_everything_is_reached_without_a_mouse(opened: Opened):
    page = opened.open()
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "query"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.type("user 5")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = page.get_by_role("option", selected=True).locator("bdi").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(f"Person {chosen}")
    page.get_by_label("Search a person or an item").fill("zzz")
    expect(page.get_by_role("status")).to_contain_text("Nobody and nothing")


def test_the_model_its_metrics_and_the_gate(opened: Opened, service: Service):
    page = opened.open("#model")
    expect(page.locator("main")).to_contain_text(service.version())
    expect(page.get_by_role("row", name="MAP 0.0100")).to_be_visible()
    expect(page.get_by_role("row", name="n_components 100 the same")).to_be_visible()
    expect(page.locator("main")).to_contain_text("promoted by the gate.")
    page.get_by_role("link", name="Reports").click()
    expect(page.get_by_role("heading", name="Days")).to_be_visible()


def test_a_service_for_others_is_opened_with_its_token(make, tmp_path: Path, browser: Browser):
    in_use(tmp_path, make(1))
    token = "correct horse battery"
    # Another way to write 127.0.0.1, which the command does not take for this machine alone.
    with running_service(tmp_path, host="127.1", MOM_SERVE_TOKEN=token) as service:
        assert "requests need a token" in service.output.read_text()
        assert service.get("/health")[0] == 200
        assert service.get("/model")[0] == 401
        assert service.get("/model", Authorization=f"Bearer {token}")[0] == 200
        context = browser.new_context()
        page, own = context.new_page(), f"http://127.0.0.1:{service.port}"
        page.goto(f"{own}/")
        expect(page.locator("body")).to_contain_text("wants a token")
        page.goto(f"{own}/?token={encoded(token)}")
        expect(page.locator("h1")).to_have_text("What people took, and what they get next")
        assert page.url == f"{own}/"
        assert page.evaluate("document.cookie") == ""
        [cookie] = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        context.close()


def test_every_parameter_has_an_example_that_runs(opened: Opened):
    page = opened.open("docs")
    forms = page.locator("details")
    expect(forms.first).to_be_visible()
    said = opened.page.request.get(f"{opened.address}/openapi.json").json()
    for form in forms.all():
        form.locator("summary").click()
        kind, path = form.locator(".method").inner_text(), form.locator("code").first.inner_text()
        operation = said["paths"][path][kind.lower()]
        named = form.locator("tbody th").all_inner_texts()
        if kind == "GET":
            assert named == [each["name"] for each in operation.get("parameters", [])]
        elif path == "/recommend":
            assert {"n", "only", "not", "group", "seen", "track"} <= set(named)
        assert "undefined" not in form.inner_text()
        for example in form.get_by_role("button", name="Use ").all():
            example.click()
        form.get_by_role("button", name="Ask").click()
        expect(form.locator("pre")).to_contain_text("\n200 OK\n")
    assert page.locator("details .method").all_inner_texts().count("POST") == 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(browser: Browser, service: Service, scheme: str):
    # The check of axe-core is a script that the page would not let in.
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    made = Opened(context.new_page(), f"http://127.0.0.1:{service.port}")
    for target in (
        "",
        "#groups",
        "#item=1%2F5",
        "#user=user%2050",
        f"#user={LONG[:1000]}",
        "#model",
        "docs",
    ):
        page = made.open(target)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (colour != "rgb(255, 255, 255)") == (scheme == "dark")
        for width in (400, 1024, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, target
        assert serious_findings(page) == []
    context.close()
