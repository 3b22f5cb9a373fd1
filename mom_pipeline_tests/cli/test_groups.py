"""`mom-pipeline groups`: the table, one group, a name of a person's own, and an audience."""

from pathlib import Path

import click
import numpy as np
import pytest

from mom_pipeline.exports.tables import NotExported
from mom_pipeline.groups.names import BadGroupName
from mom_pipeline.serving.answers import UnknownGroup, UnknownUser
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline_tests.serving.service import encoded, running_service

from .conftest import in_csv, mom


def test_the_groups_of_the_model_in_use(computed: Path):
    served = ModelRegistry(computed / "models").champion()
    said = mom(computed, "groups", "--json").json
    assert said["model"] == served.manifest.version
    groups = said["groups"]
    assert sum(group["people"] for group in groups) == (np.diff(served.histories.indptr) > 0).sum()
    assert [g["people"] for g in groups] == sorted((g["people"] for g in groups), reverse=True)
    shown = mom(computed, "groups").stdout
    words = f"support {said['supported']} groups by their second moment; twice as many would"
    assert words in " ".join(shown.split())
    for group in groups:
        low, high = group["size_interval"]
        assert low < group["size"] < high
        assert f"{group['people']:,}" in shown
        assert group["name"] in shown
        assert group["items"][0]["name"][:20] in shown


def test_one_group_by_name_and_by_number_beside_another(computed: Path):
    one, other = mom(computed, "groups", "--json").json["groups"][:2]
    by_name = mom(computed, "groups", one["name"].upper(), "--json").json
    assert by_name == mom(computed, "groups", str(one["number"]), "--json").json
    assert by_name["members"] <= by_name["people"]
    assert len(by_name["by_day_interval"]) == len(by_name["days"]) == len(by_name["by_day"])
    assert all(item["share"] > item["usual"] for item in by_name["next"])
    beside = mom(computed, "groups", one["name"], "--against", other["name"], "--json").json
    assert beside["against"] == other["name"]
    back = mom(computed, "groups", other["name"], "--against", one["name"], "--json").json
    sides = beside["apart"], back["the_other_takes"]
    assert [i["item"] for i in sides[0]] == [i["item"] for i in sides[1]] != []
    sure = mom(computed, "groups", one["name"], "--at-least", "1", "--json").json
    assert sure["members"] < by_name["members"]
    shown = mom(computed, "groups", one["name"], "--against", other["name"]).stdout
    assert f"{other['name']} takes more" in shown
    assert beside["the_other_takes"][0]["item"] in shown


def test_a_name_of_a_person_is_everywhere_and_stays(shop: Path, tmp_path: Path):
    old = mom(shop, "groups", "--json").json["groups"][0]["name"]
    with running_service(shop) as service:
        assert service.get(f"/groups/{encoded(old)}")[0] == 200
        mom(shop, "groups", "rename", old, "Night owls")
        mom(shop, "groups", "rename", "Night owls", "Sleepless")
        shown = mom(shop, "groups", "--json").json["groups"][0]
        assert shown["name"] == "Sleepless"
        status, answer = service.get("/groups/Sleepless?at_least=0.9")
        while status == 404:  # the service looks for what changed
            status, answer = service.get("/groups/Sleepless?at_least=0.9")
        page = mom(shop, "groups", "Sleepless", "--at-least", ".9", "--json").json
        assert (status, answer) == (200, page)
        assert service.get("/groups")[1] == mom(shop, "groups", "--json").json
    mom(shop, "export", "groups", "--to", str(tmp_path / "groups.csv"))
    assert "Sleepless" in {row["name"] for row in in_csv(tmp_path / "groups.csv")}
    mom(shop, "report")
    report = next((shop / "reports").glob("2*.html")).read_text()
    assert "Sleepless" in report
    # Another day keeps it, and so does a rebuild without one of its people.
    mom(shop, "groups", "audience", "Sleepless", "--to", str(tmp_path / "people.csv"))
    user = in_csv(tmp_path / "people.csv")[0]["user_id"]
    mom(shop, "erase", user, "--yes")
    assert "Sleepless" in {g["name"] for g in mom(shop, "groups", "--json").json["groups"]}


def test_an_audience_is_who_belongs_so_surely(computed: Path, tmp_path: Path):
    group = mom(computed, "groups", "--json").json["groups"][1]
    file = tmp_path / "people.csv"
    mom(computed, "groups", "audience", group["name"], "--at-least", ".8", "--to", str(file))
    served = ModelRegistry(computed / "models").champion()
    P = served.model.memberships(served.histories)[:, group["number"] - 1]
    known = np.diff(served.histories.indptr) > 0
    expected = {str(u): float(p) for u, p in zip(served.user_ids, P, strict=True) if p >= 0.8}
    found = {row["user_id"]: float(row["share"]) for row in in_csv(file)}
    assert found == pytest.approx(
        {u: p for u, p in expected.items() if known[served.user_positions[u]]}
    )
    shares = [float(row["share"]) for row in in_csv(file)]
    assert shares == sorted(shares, reverse=True)


def test_an_audience_like_some_people_is_of_their_group(computed: Path, tmp_path: Path):
    groups = mom(computed, "groups", "--json").json["groups"]
    own, seeds, like = (tmp_path / name for name in ("own.csv", "seeds.txt", "like.csv"))
    mom(computed, "groups", "audience", groups[0]["name"], "--at-least", ".9", "--to", str(own))
    people = [row["user_id"] for row in in_csv(own)]
    seeds.write_text("\n".join([*people[:20], "nobody", ""]))
    mom(computed, "groups", "audience", "--like", str(seeds), "--at-least", ".9", "--to", str(like))
    found = [row["user_id"] for row in in_csv(like)]
    assert found
    assert not set(found) & set(people[:20])
    assert len(set(found) & set(people)) > 0.8 * len(found)


@pytest.mark.parametrize(
    ("words", "said", "error"),
    [
        (["Nothing such"], "lists them", UnknownGroup),
        (["\x1b[31m"], "no group is called", UnknownGroup),
        (["99"], "no group is called '99'", UnknownGroup),
        (["rename", "1", ""], "a name has letters", BadGroupName),
        (["rename", "99", "Owls"], "no group is called '99'", BadGroupName),
        (["audience", "1", "--to", "people.txt"], "must end with .csv", NotExported),
    ],
)
def test_what_cannot_be_is_said(computed: Path, tmp_path: Path, monkeypatch, words, said, error):
    monkeypatch.chdir(tmp_path)
    assert said in mom(computed, "groups", *words, error=error).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rename", "1"], "takes OLD and NEW"),
        (["one", "two"], "in quotes"),
        (["audience", "1"], "and --to"),
        (["1", "--to", "x.csv"], "audience"),
        (["--at-least", "2"], "0<=x<=1"),
    ],
)
def test_wrong_words_are_said(computed: Path, words, said):
    shown = mom(computed, "groups", *words, code=click.UsageError.exit_code).stderr
    assert said in " ".join(shown.split())


def test_a_near_name_is_offered_and_strangers_are_no_audience(computed: Path, tmp_path: Path):
    name = mom(computed, "groups", "--json").json["groups"][0]["name"]
    assert f"did you mean {name!r}" in mom(computed, "groups", name[:-1], error=UnknownGroup).stderr
    (tmp_path / "ids.txt").write_text("nobody\nno one\n")
    words = "audience", "--like", str(tmp_path / "ids.txt"), "--to", str(tmp_path / "x.csv")
    assert "knows none of these" in mom(computed, "groups", *words, error=UnknownUser).stderr
