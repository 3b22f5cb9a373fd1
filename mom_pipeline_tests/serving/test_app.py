"""The application in this process: the token beyond loopback, choices, metrics and reports."""

import re

import pytest
from click.testing import CliRunner

from mom_pipeline import Recommender
from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.cli.main import cli
from mom_pipeline.serving.access import COOKIE, VARIABLE, TokenGuard, TokenMissing, Tokens
from mom_pipeline.serving.answers import InvalidQuestion
from mom_pipeline.serving.champion import Champion
from mom_pipeline.serving.http import create_app
from mom_pipeline.settings import load_settings

from .conftest import D, asked, in_use

TOKEN = "a secret of enough letters ü"


@pytest.fixture
def app(make, tmp_path):
    in_use(tmp_path, make(1))
    (tmp_path / "reports").mkdir()
    champion = Champion(load_settings(tmp_path, {}))
    champion.look()
    return create_app(champion)


def guarded(app) -> TokenGuard:
    return TokenGuard(app, Tokens(app.state.champion.settings, TOKEN))


@pytest.mark.parametrize("token", ["", "too short"])
def test_another_host_wants_a_token(token):
    # An address of documentation: nobody could listen on it.
    arguments, environment = ["serve", "--host", "192.0.2.1", "--port", "0"], {VARIABLE: token}
    result = CliRunner().invoke(cli, arguments, env=environment)
    assert result.exit_code != 0
    assert isinstance(result.exception, TokenMissing)
    assert "MOM_SERVE_TOKEN must hold a secret of 16 characters" in str(result.exception)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
        {"authorization": f"Basic {TOKEN}".encode()},
        {"cookie": f"{COOKIE}=wrong"},
        {"cookie": f"{COOKIE}={TOKEN}".encode()},
        {"cookie": "a b=\x01;"},
    ],
)
@pytest.mark.parametrize(
    "path", ["/", "/model", "/metrics", "/reports/", "/?token=wrong", "/?token="]
)
def test_without_the_token_nothing_is_shown(app, path, headers):
    answer = asked(guarded(app), path, headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "set-cookie" not in answer.headers
    assert TOKEN not in answer.text


@pytest.mark.parametrize("token", ["wrong", ""])
def test_a_wrong_token_is_refused_whatever_comes_with_it(app, token):
    guard = guarded(app)
    cookie = asked(guard, "/", params={"token": TOKEN}).headers["set-cookie"].partition(";")[0]
    bearer = f"Bearer {TOKEN}".encode()
    for headers in ({"cookie": cookie}, {"authorization": bearer}):
        assert asked(guard, "/model", headers=headers).status_code == 200
        refused = asked(guard, "/model", params={"token": token}, headers=headers)
        assert refused.status_code == 401


def test_a_browser_changes_the_token_for_a_cookie(app):
    guard = guarded(app)
    first = asked(guard, "/search", params={"q": "a b", "token": TOKEN})
    assert first.headers["refresh"] == "0; url=/search?q=a+b"
    cookie = first.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    value = re.match(f"{COOKIE}=([^;]+);", cookie)[1]
    again = {"cookie": f"other=1; {COOKIE}={value}"}
    assert asked(guard, "/search?q=user", headers=again).status_code == 200
    # Of this run alone: another one has another cookie.
    assert asked(guarded(app), "/search", headers=again).status_code == 401


def test_the_way_on_after_the_token_stays_here(app):
    answer = asked(guarded(app), "http://service//elsewhere.example/", params={"token": TOKEN})
    assert answer.headers["refresh"] == "0; url=/elsewhere.example/"


def test_lists_among_some_items_and_of_several_people(make, tmp_path):
    in_use(tmp_path, make(1))
    items = {f"1/{y}": Item(f"1/{y}", f"No. {y}", "Odd" if y % 2 else "") for y in range(D)}
    Catalogue(items).save(tmp_path)
    (tmp_path / "pipeline.toml").write_text('[serving]\nexclude_items = ["1/1"]\n')
    recommender = Recommender.open(tmp_path)
    champion = Champion(load_settings(tmp_path))
    champion.look()
    app = create_app(champion)

    def answer(question):
        said = asked(app, "/recommend", method="POST", json=question)
        return said.status_code, said.json()

    said = asked(app, "/recommend/user%200?n=4&group=Odd").json()
    odd = recommender.recommend("user 0", 4, among=recommender.choose(group="Odd"))
    assert said == odd.model_dump(mode="json")
    assert "1/1" not in {line["item"] for line in said["items"]}
    assert said["items"][0]["name"].startswith("No. ")
    expected = recommender.recommend("user 0", 4, events=["1/5"])
    asked_since = answer({"user": "user 0", "items": ["1/5"], "n": 4})
    assert asked_since == (200, expected.model_dump(mode="json"))
    users, some = ["user 0", "nobody"], {"only": ["1/3", "1/5"], "not": ["1/5"]}
    _, said = answer({"users": users, "n": 2, **some})
    assert [entry["user"] for entry in said["lists"]] == users
    assert [line["item"] for line in said["lists"][1]["items"]] == ["1/3"]
    assert asked(app, "/recommend/user%200?group=None").status_code == 404
    expected = recommender.recommend("user 0", 4, exclude_seen=False)
    assert asked(app, "/recommend/user%200?n=4&seen=true").json() == expected.model_dump(
        mode="json"
    )
    assert answer({"user": "user 0", "n": 4, "seen": True})[1] == expected.model_dump(mode="json")
    hidden = recommender.recommend("user 0", 4, exclude_seen=True).model_dump(mode="json")
    assert answer({"user": "user 0", "n": 4, "seen": False})[1] == hidden
    assert asked(app, "/recommend/user%200?seen=1").status_code == 422
    for bad in ({"users": ["a"], "items": ["b"]}, {"users": ["a"] * 101}, {"n": 3}):
        assert answer(bad)[0] == 422


def test_a_version_that_is_gone_answers_nothing_more(app, registry, make):
    """The watch has not looked yet, and in the end no model is left."""
    first, second = registry.champion_version(), registry.add(make(2))
    assert asked(app, "/recommend/user%200").json()["model"] == first
    registry.leave_only(second, "an erasure")
    assert asked(app, "/history?user=user%200").json()["model"] == second
    registry.leave_only(None, "an erasure")
    said = asked(app, "/recommend/user%200")
    assert (said.status_code, said.headers["retry-after"]) == (503, "5")
    assert "gone by an erasure" in said.json()["error"]


def test_items_have_weights(app, registry):
    recommender = Recommender(registry.champion())

    def listed(items):
        said = asked(app, "/recommend", method="POST", json={"items": items, "n": 5})
        return said.json()["items"] if said.status_code == 200 else said.status_code

    assert (
        listed({"1/3": 2, "1/5": 1})
        == listed(["1/3", "1/3", "1/5"])
        == listed(["1/5"] + ["1/3"] * 2)
    )
    assert listed({"1/3": 0.1, "1/5": 9.5}) != listed({"1/3": 9.5, "1/5": 0.1})
    for wrong in ({}, {"1/3": 0}, {"1/3": -1}, {"1/3": "2"}, {"1/3": True}, {"": 1}, {"1/3": 1e9}):
        assert listed(wrong) == 422
    for wrong in (0, -1, float("nan"), 1e9):
        with pytest.raises(InvalidQuestion, match="weights"):
            recommender.recommend_items({"1/3": wrong})
    fresh = recommender.recommend("user 0", 5, events={"1/3": 2.0})
    assert fresh == recommender.recommend("user 0", 5, events=["1/3", "1/3"])


def test_pictures_of_items_are_shown_and_nothing_else_of_other_hosts(make, tmp_path):
    in_use(tmp_path, make(1))

    def policy_with(image: str) -> str:
        Catalogue({"1/3": Item("1/3", "Tea", image=image)}).save(tmp_path)
        champion = Champion(load_settings(tmp_path))
        champion.look()
        app = create_app(champion)
        assert asked(app, "/items/1%2F3").json()["image"] == image
        return asked(app, "/").headers["content-security-policy"]

    assert "https:" not in policy_with("")
    assert "img-src https: 'self' data:;" in policy_with("https://pictures.example/tea.jpg")


def test_no_link_of_a_page_is_dead(app, tmp_path):
    folder = tmp_path / "reports"
    for _ in range(2):  # without reports, and with one
        to_visit, seen = ["/"], set()
        while to_visit:
            path = to_visit.pop()
            answer = asked(app, path, follow_redirects=True)
            assert answer.status_code == 200, path
            if answer.headers["content-type"].startswith("text/html"):
                found = re.findall(r'(?:href|src)="([^"#]+)["#]', answer.text)
                to_visit += [link for link in found if link not in seen]
                seen |= set(found)
        assert {"/reports/", "/docs", "/metrics", "/openapi.json"} <= seen
        (folder / "index.html").write_text('<a href="/reports/2024-03-28.html">a day</a>')
        (folder / "2024-03-28.html").write_text("a day")


def test_requests_are_counted_by_route_and_never_by_id(app):
    for path in ("/recommend/user%201", "/recommend/user%202", "/similar/nothing", "/no/such/page"):
        asked(app, path)
    answer = asked(app, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    for line in (
        'mom_requests_total{method="GET",route="/recommend/{user:id}",status="200"} 2.0',
        'mom_requests_total{method="GET",route="/similar/{item:id}",status="404"} 1.0',
        'mom_requests_total{method="other",route="other",status="404"} 1.0',
        'mom_request_seconds_bucket{le="+Inf",route="/recommend/{user:id}"} 2.0',
        'mom_request_seconds_count{route="/recommend/{user:id}"} 2.0',
        "mom_errors_total 0.0",
        "mom_model_users 200.0",
        "mom_model_degraded 0.0",
    ):
        assert line in lines
    assert any(line.startswith('mom_model_info{version="2024-03-01-') for line in lines)
    assert "user 1" not in answer.text
    assert "no/such" not in answer.text


def test_reports_are_shown_and_nothing_else_of_the_disk(app, tmp_path):
    folder = tmp_path / "reports"
    (folder / "index.html").write_text("all days")
    (folder / "2024-03-28.html").write_text("a day")
    (folder / "notes.html").write_text("private")
    (tmp_path / "2024-03-29.html").write_text("private")
    assert asked(app, "/reports/").text == "all days"
    answer = asked(app, "/reports/2024-03-28.html")
    assert answer.text == "a day"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    for path in (
        "notes.html",
        "2024-03-30.html",
        "..%2F2024-03-29.html",
        "%2e%2e/2024-03-29.html",
        "2024-03-28.html%00",
        "2024-03-28.html%0A",
        "%2Fetc%2Fpasswd",
        "٢٠٢٤-03-28.html",
    ):
        answer = asked(app, f"/reports/{path}")
        assert answer.status_code == 404
        assert "private" not in answer.text
    assert asked(app, "/reports/2024-03-28.html", method="POST").status_code == 405


@pytest.mark.parametrize("path", ["/", "/docs", "/explorer.js", "/explorer.css", "/docs.js"])
def test_pages_hold_no_script_of_their_own_and_name_no_other_host(app, path):
    answer = asked(app, path)
    assert answer.status_code == 200
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text)
    assert "innerHTML" not in answer.text
    if answer.headers["content-type"].startswith("text/html"):
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert not re.search(r"<script>|<style|\son[a-z]+=|style=", answer.text)
