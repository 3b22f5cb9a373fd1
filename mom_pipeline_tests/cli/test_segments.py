"""`mom-pipeline groups --segment`: groups of some people, by the columns of users.csv."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.catalogue import InvalidCatalogue
from mom_pipeline.core.algorithm.decompose import decompose
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.pipeline.days import Days
from mom_pipeline.segments import SegmentedDay, Selection, UnknownSegment
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import mom

COUNTRIES = ["Germany", "France", "Côte d'Ivoire", "日本"]


@pytest.fixture
def told(shop: Path) -> Path:
    """A folder that knows countries, all but one of which have many people."""
    users = ModelRegistry(load_settings(shop, {}).models_dir).champion().user_ids
    lines = [f'{user},"{COUNTRIES[i % 4]}",web' for i, user in enumerate(users)]
    lines[:3] = [f"{user},Malta,web" for user in users[:3]]
    (shop / "users.csv").write_text("\n".join(["user,country,channel", *lines]), "utf-8")
    return shop


def opened(folder: Path) -> tuple[SegmentedDay, Days, date, list[str]]:
    settings = load_settings(folder, {})
    served = ModelRegistry(settings.models_dir).champion()
    day, ids = date.fromisoformat(served.manifest.day), [str(user) for user in served.user_ids]
    return SegmentedDay(settings, day, ids), Days(settings), day, ids


def fitted_on(days: Days, day: date, rows: np.ndarray, K: int):
    """Components of a fit on some rows, through the anchor of the day."""
    anchor, _ = days.moments(day)
    start = days.arrays("decomposition", day)["anchor_components"]
    sums = AnchoredSums.from_rows(days.rows(day).X[rows], anchor)
    settings = replace(days.decompose_settings(day), n_components=K)
    return decompose(replace(anchor, components=start), sums, settings)


@pytest.mark.parametrize(
    ("chosen", "without", "kept"),
    [
        (["country=Germany", "country=日本"], [], {"Germany", "日本"}),
        ([], ["country=France"], {"Germany", "Malta", "Côte d'Ivoire", "日本"}),
    ],
)
def test_a_segment_equals_a_fit_on_its_people_through_the_same_basis(told, chosen, without, kept):
    segmented, days, day, ids = opened(told)
    own = segmented.columns.column("country")
    rows = np.flatnonzero([own[user] in kept for user in ids])
    for _ in range(2):  # from the rows, and from the sums that these left
        model = segmented.model(Selection.parse(chosen, without))
        fit = fitted_on(days, day, rows, len(model.weights))
        np.testing.assert_allclose(model.weights, fit.weights, rtol=1e-6)
        np.testing.assert_allclose(model.item_probs, fit.item_probs, atol=1e-7)
    options = (*(f"--segment={c}" for c in chosen), *(f"--without={w}" for w in without))
    said = mom(told, "groups", *options, "--json").json
    assert said["people"] == model.people
    assert sum(group["share"] for group in said["groups"]) == pytest.approx(1)


def test_columns_groups_and_likeness_are_shown(told):
    shown = mom(told, "groups", "segments").stdout
    assert "country=日本" in shown
    assert "country=Malta" in shown
    web = mom(told, "groups", "--segment", "channel=web")
    assert "people, 3 groups" in web.stdout
    one = mom(told, "groups", "2", "--segment", "channel=web", "--json").json["groups"]
    assert [group["group"] for group in one] == [2]
    assert one[0]["name"] in web.stdout
    options = "--segment", "country=Germany", "--against", "country=France"
    said = mom(told, "groups", *options).stdout
    assert "p = 0." in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["country=Malta"], "3 people with a history, at least 20"),
        (["country=Germny"], "did you mean 'Germany'"),
        (["country"], "COLUMN=VALUE"),
        (["shop=1"], "no column 'shop'"),
        (["country=France", "--without", "channel=web"], "of one column"),
        (["country=France", "--against", "country=France"], "share nobody"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(told, arguments, words):
    assert words in mom(told, "groups", "--segment", *arguments, error=UnknownSegment).stderr


@pytest.mark.parametrize(
    "content", [b"user,country\n\xff\xfe,x\n", b"name,country\na,b\n", b"user\na\n"]
)
def test_a_file_that_cannot_be_read_is_a_sentence(told, content):
    (told / "users.csv").write_bytes(content)
    assert "users.csv" in mom(told, "groups", "segments", error=InvalidCatalogue).stderr


def test_values_of_strange_characters_stay_text(told):
    _, _, _, ids = opened(told)
    lines = [f'{user},"a\u202eb\x07  c"' for user in ids[:50]]
    (told / "users.csv").write_text("\n".join(["user,store", *lines, "nobody,x"]), "utf-8")
    assert mom(told, "groups", "segments", "--json").json == [
        {"segment": "store=ab c", "people": 50}
    ]
    (told / "users.csv").unlink()
    assert mom(told, "groups", "segments", "--json").json == []


def test_an_erased_person_is_in_no_line_and_in_no_sum(told):
    _, _, _, ids = opened(told)
    mom(told, "groups", "--segment", "country=Germany")
    sums = told / "artifacts" / "segment_sums"
    before = {path.name for path in sums.iterdir()}
    assert before
    mom(told, "erase", ids[8], "--yes")
    assert f"\n{ids[8]}," not in (told / "users.csv").read_text("utf-8")
    assert f"\n{ids[12]}," in (told / "users.csv").read_text("utf-8")
    assert not before & {path.name for path in sums.iterdir()}
