"""The commands that ask the promoted model, as a user types them."""

import csv
import io
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.serving.answers import UnknownItem, UnknownUser
from mom_pipeline.serving.registry import ModelRegistry, NoChampion
from mom_pipeline.serving.served_model import MODEL, Manifest, ServedModel
from mom_pipeline.settings import ModelSettings
from mom_pipeline_tests.cli.conftest import mom

N, D, K = 120, 30, 3
ODD = ["[red]a[/x]", "two\nlines", '=HYPERLINK("http://x")', "with, comma", "-n", "\x1b[31mred"]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("query")
    _, X = simulate(N, D, K, items_per_user=8, seed=0)
    model = MethodOfMoments(K, ranking="components").fit(X).fitted
    items = np.array([*ODD, *(f"item {y}" for y in range(len(ODD), D))], dtype=object)
    users = np.array([*ODD, *(f"user {u}" for u in range(len(ODD), N))], dtype=object)
    manifest = Manifest("", "2024-03-01", "1", "rows", asdict(ModelSettings()), {}, {})
    registry = ModelRegistry(folder / "models")
    registry.promote(registry.add(ServedModel(manifest, model, items, users, X, X)), "a test")
    return folder


@pytest.fixture
def run(data_dir):
    return partial(mom, data_dir)


def test_recommend_to_users(run):
    answers = run("recommend", "user 9", "nobody", "-n", "3", "--json").json
    assert [a["user"] for a in answers] == ["user 9", "nobody"]
    assert [a["fallback"] for a in answers] == [False, True]
    assert [len(a["items"]) for a in answers] == [3, 3]
    shown = run("recommend", "user 9", "nobody", "-n", "3")
    assert answers[0]["items"][0]["item"] in shown.stdout
    assert "the model does not know the user 'nobody': popular items" in shown.stderr


def test_recommend_by_items(run):
    answer = run("recommend", "--items", 'item 7,"with, comma"', "--json").json[0]
    assert (answer["user"], answer["unknown_items"]) == (None, [])
    assert not {"item 7", "with, comma"} & {line["item"] for line in answer["items"]}
    shown = run("recommend", "--items", "item 7,never seen")
    assert "Unknown items: 'never seen'" in shown.stderr
    assert "somebody new" in shown.stdout
    for items, n in ((",", "0"), (",".join(["item 7"] * 10_001), "10,001")):
        assert f"found {n}" in run("recommend", "--items", items, code=1).stderr


@pytest.mark.parametrize(
    "words", [(), ("user 8", "user 9", "--items", "item 7"), ("user 9", "-n", "0")]
)
def test_users_or_items_but_not_several_with_items(run, words):
    run("recommend", *words, code=2)


def test_seen_items_by_setting_and_by_option(run):
    def length(*options, **environment):
        asked = run("recommend", "user 9", "-n", "1000", "--json", *options, **environment)
        return len(asked.json[0]["items"])

    # Items that nobody took are no candidates.
    assert length() < length("--seen") <= D
    assert length(MOM_SERVING__EXCLUDE_SEEN="false") == length("--seen")


@pytest.mark.parametrize("name", ODD)
def test_odd_ids_are_shown_as_text(run, name):
    answer = run("recommend", "--json", "--", name).json[0]
    assert (answer["user"], answer["fallback"]) == (name, False)
    assert run("similar", "--json", "--", name).json["item"] == name
    item = answer["items"][0]["item"]
    why = run("explain", "--json", "--", name, item).json
    assert sum(m["contribution"] for m in why["moments"]) == pytest.approx(why["score"])
    for command in (["recommend"], ["similar"], ["explain", "user 9"]):
        shown = run(command[0], "--", *command[1:], name)
        assert "\x1b" not in shown.stdout
        assert repr(name) in shown.stdout or ascii(name) in shown.stdout


@pytest.mark.parametrize(
    ("words", "error", "near"),
    [
        (("similar", "nothing"), UnknownItem, ""),
        (("explain", "user 9", "nothing"), UnknownItem, ""),
        (("explain", "nobody", "item 7"), UnknownUser, ""),
        (("similar", "Item 7"), UnknownItem, "did you mean 'item 7'"),
        (("explain", "user_9", "item 7"), UnknownUser, "did you mean 'user 9'"),
    ],
)
def test_what_is_unknown_is_named_and_what_is_near_proposed(run, words, error, near):
    assert near in run(*words, error=error).stderr


def test_a_user_or_a_command_that_is_near_is_proposed(run):
    assert "did you mean 'user 9'" in run("recommend", "User 9").stderr
    assert "did you mean 'recommend'" in run("recomend", "user 9", code=2).stderr


def test_without_a_champion_and_with_a_damaged_one(run, tmp_path, data_dir):
    for command in (["recommend", "a"], ["similar", "a"], ["explain", "a", "b"]):
        mom(tmp_path, *command, error=NoChampion)
    registry = ModelRegistry(data_dir / "models")
    path = registry.folder(str(registry.champion_version())) / MODEL
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    try:
        run("recommend", "user 9", error=DamagedModel)
    finally:
        path.write_bytes(whole)
    run("recommend", "user 9")


def test_lists_for_a_spreadsheet_hold_no_formula(run):
    users = 'user 9\n=HYPERLINK("http://x")\n\n'
    shown = run("recommend", "-", "-n", "30", "--seen", "--csv", typed=users)
    rows = list(csv.reader(io.StringIO(shown.stdout)))
    assert rows[0] == ["user", "rank", "item", "name", "score", "because of"]
    assert {row[0] for row in rows[1:]} == {"user 9", '\'=HYPERLINK("http://x")'}
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "+", "-"))]
    assert '\'=HYPERLINK("http://x")' in {row[2] for row in rows[1:]}


def test_only_and_not_are_files_of_ids(run, tmp_path):
    some, others = tmp_path / "only.txt", tmp_path / "not.txt"
    some.write_text("item 7\r\nitem 8\nitem 9\n")
    others.write_text("item 8\nno such\n")
    options = ("--only", str(some), "--not", str(others), "--seen", "--json")
    (answer,) = run("recommend", "user 9", *options).json
    assert {line["item"] for line in answer["items"]} <= {"item 7", "item 9"}
    assert answer["unknown_items"] == ["no such"]
    some.write_bytes(b"\xff\n")
    assert "must be UTF-8" in run("recommend", "user 9", "--only", str(some), code=2).stderr


def test_names_from_items_csv_are_shown_as_text(run, data_dir):
    path = data_dir / "items.csv"
    names = "".join(f"item {y},[bold]{y}[/x] <b>\n" for y in range(30))
    path.write_text(f"item,name\n{names}")
    try:
        shown = run("recommend", "user 9", "-n", "30").stdout
        assert "[bold]7[/x] <b>" in shown or "[bold]9[/x] <b>" in shown
        assert "[bold]" in run("similar", "item 7").stdout
        assert "[bold]" in run("explain", "user 9", "item 7").stdout
    finally:
        path.unlink()


def test_a_narrow_terminal_keeps_ids_whole(run):
    (answer,) = run("recommend", "user 9", "-n", "5", "--json").json
    shown = run("recommend", "user 9", "-n", "5", COLUMNS="30").stdout
    for line in answer["items"]:
        if line["item"].startswith("item "):
            assert line["item"] in shown
