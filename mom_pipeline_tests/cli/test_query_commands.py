"""The commands that ask the promoted model, as a user types them."""

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mom_pipeline.cli.main import cli
from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.errors import DamagedModel, MomError
from mom_pipeline.serving.answers import UnknownItem, UnknownUser
from mom_pipeline.serving.registry import ModelRegistry, NoChampion
from mom_pipeline.serving.served_model import MODEL, Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

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
def run(data_dir: Path):  # type: ignore[no-untyped-def]
    def invoke(*arguments: str, typed: str | None = None, **environment: str) -> Result:
        env = {"MOM_DATA_DIR": str(data_dir), "COLUMNS": "200"} | environment
        return CliRunner().invoke(cli, arguments, env=env, input=typed)

    return invoke


def failure(result: Result) -> MomError:
    """The error that becomes one red line and exit code 1."""
    assert isinstance(result.exception, MomError), result.output
    return result.exception


def test_recommend_to_users(run) -> None:  # type: ignore[no-untyped-def]
    answers = json.loads(run("recommend", "user 9", "nobody", "-n", "3", "--json").stdout)
    assert [a["user"] for a in answers] == ["user 9", "nobody"]
    assert [a["fallback"] for a in answers] == [False, True]
    assert [len(a["items"]) for a in answers] == [3, 3]
    shown = run("recommend", "user 9", "nobody", "-n", "3")
    assert shown.exit_code == 0
    assert answers[0]["items"][0]["item"] in shown.stdout
    assert "the model does not know the user 'nobody': popular items" in shown.stderr


def test_recommend_by_items(run) -> None:  # type: ignore[no-untyped-def]
    answer = json.loads(run("recommend", "--items", 'item 7,"with, comma"', "--json").stdout)[0]
    assert (answer["user"], answer["unknown_items"]) == (None, [])
    assert not {"item 7", "with, comma"} & {line["item"] for line in answer["items"]}
    shown = run("recommend", "--items", "item 7,never seen")
    assert "Unknown items: 'never seen'" in shown.stderr
    assert "somebody new" in shown.stdout
    assert "found 0" in str(failure(run("recommend", "--items", ",")))
    many = ",".join(["item 7"] * 10_001)
    assert "found 10,001" in str(failure(run("recommend", "--items", many)))


def test_users_or_items_but_not_several_with_items(run) -> None:  # type: ignore[no-untyped-def]
    assert run("recommend").exit_code == 2
    assert run("recommend", "user 8", "user 9", "--items", "item 7").exit_code == 2
    assert run("recommend", "user 9", "-n", "0").exit_code == 2


def test_seen_items_by_setting_and_by_option(run) -> None:  # type: ignore[no-untyped-def]
    def length(*options: str, **environment: str) -> int:
        text = run("recommend", "user 9", "-n", "1000", "--json", *options, **environment).stdout
        return len(json.loads(text)[0]["items"])

    # Items that nobody took are no candidates.
    assert length() < length("--seen") <= D
    assert length(MOM_SERVING__EXCLUDE_SEEN="false") == length("--seen")


@pytest.mark.parametrize("name", ODD)
def test_odd_ids_are_shown_as_text(run, name: str) -> None:  # type: ignore[no-untyped-def]
    answer = json.loads(run("recommend", "--json", "--", name).stdout)[0]
    assert (answer["user"], answer["fallback"]) == (name, False)
    assert json.loads(run("similar", "--json", "--", name).stdout)["item"] == name
    item = answer["items"][0]["item"]
    why = json.loads(run("explain", "--json", "--", name, item).stdout)
    assert sum(m["contribution"] for m in why["moments"]) == pytest.approx(why["score"])
    for command in (["recommend"], ["similar"], ["explain", "user 9"]):
        shown = run(command[0], "--", *command[1:], name)
        assert shown.exit_code == 0, shown.output
        assert "\x1b" not in shown.stdout
        assert repr(name) in shown.stdout or ascii(name) in shown.stdout


def test_what_is_unknown_is_named(run) -> None:  # type: ignore[no-untyped-def]
    assert isinstance(failure(run("similar", "nothing")), UnknownItem)
    assert isinstance(failure(run("explain", "user 9", "nothing")), UnknownItem)
    assert isinstance(failure(run("explain", "nobody", "item 7")), UnknownUser)


def test_without_a_champion_and_with_a_damaged_one(run, tmp_path: Path, data_dir: Path) -> None:  # type: ignore[no-untyped-def]
    for command in (["recommend", "a"], ["similar", "a"], ["explain", "a", "b"]):
        error = failure(run(*command, MOM_DATA_DIR=str(tmp_path)))
        assert isinstance(error, NoChampion)
        assert "mom-pipeline" in str(error)
    registry = ModelRegistry(data_dir / "models")
    path = registry.folder(str(registry.champion_version())) / MODEL
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    try:
        assert isinstance(failure(run("recommend", "user 9")), DamagedModel)
    finally:
        path.write_bytes(whole)
    assert run("recommend", "user 9").exit_code == 0


def test_lists_for_a_spreadsheet_hold_no_formula(run) -> None:  # type: ignore[no-untyped-def]
    users = 'user 9\n=HYPERLINK("http://x")\n\n'
    shown = run("recommend", "-", "-n", "30", "--seen", "--csv", typed=users)
    rows = list(csv.reader(io.StringIO(shown.stdout)))
    assert rows[0] == ["user", "rank", "item", "name", "score", "because of"]
    assert {row[0] for row in rows[1:]} == {"user 9", '\'=HYPERLINK("http://x")'}
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "+", "-"))]
    assert '\'=HYPERLINK("http://x")' in {row[2] for row in rows[1:]}


def test_only_and_not_are_files_of_ids(run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    some, others = tmp_path / "only.txt", tmp_path / "not.txt"
    some.write_text("item 7\r\nitem 8\nitem 9\n")
    others.write_text("item 8\nno such\n")
    options = ("--only", str(some), "--not", str(others), "--seen", "--json")
    (answer,) = json.loads(run("recommend", "user 9", *options).stdout)
    assert {line["item"] for line in answer["items"]} <= {"item 7", "item 9"}
    assert answer["unknown_items"] == ["no such"]
    some.write_bytes(b"\xff\n")
    assert "must be UTF-8" in run("recommend", "user 9", "--only", str(some)).output


def test_what_is_near_is_proposed(run) -> None:  # type: ignore[no-untyped-def]
    assert "did you mean 'user 9'" in run("recommend", "User 9").stderr
    assert "did you mean 'item 7'" in str(failure(run("similar", "Item 7")))
    assert "did you mean 'user 9'" in str(failure(run("explain", "user_9", "item 7")))
    assert "did you mean 'recommend'" in run("recomend", "user 9").stderr
    assert run("recomend").exit_code == 2


def test_names_from_items_csv_are_shown_as_text(run, data_dir) -> None:  # type: ignore[no-untyped-def]
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


def test_a_narrow_terminal_keeps_ids_whole(run) -> None:  # type: ignore[no-untyped-def]
    (answer,) = json.loads(run("recommend", "user 9", "-n", "5", "--json").stdout)
    shown = run("recommend", "user 9", "-n", "5", COLUMNS="30").stdout
    for line in answer["items"]:
        if line["item"].startswith("item "):
            assert line["item"] in shown
