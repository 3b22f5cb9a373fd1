"""`models`, `promote` and `rollback` over a small registry."""

from functools import partial

import pytest

from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.serving.registry import ModelRegistry, NothingToRollBack, UnknownVersion
from mom_pipeline.serving.served_model import MODEL
from mom_pipeline_tests.cli.conftest import mom
from mom_pipeline_tests.serving.conftest import fitted, make  # noqa: F401 - fixtures


@pytest.fixture
def run(tmp_path):
    return partial(mom, tmp_path)


@pytest.fixture
def versions(tmp_path, make):  # noqa: F811
    registry = ModelRegistry(tmp_path / "models")
    return registry, [registry.add(make(day)) for day in (1, 2)]


def test_an_empty_registry_says_so(run):
    assert "no version" in run("models").stdout
    assert run("models", "--json").json == {"champion": None, "versions": [], "history": []}
    run("rollback", error=NothingToRollBack)


def test_promote_rollback_and_the_table(run, versions):
    registry, (a, b) = versions
    assert "after none" in run("promote", a).stdout
    assert "already" in run("promote", a).stdout
    assert f"after {a}" in run("promote", b, "--reason", 'say "=HYPERLINK(').stdout
    table = run("models").stdout
    line = next(line for line in table.splitlines() if b in line and "whole" in line)
    assert "yes" in line
    assert "0.0200" in line
    assert "=HYPERLINK(" in table
    run("rollback")
    told = run("models", "--json").json
    assert told["champion"] == a == registry.champion_version()
    assert [entry["champion"] for entry in told["versions"]] == [True, False]
    assert told["versions"][0]["manifest"]["metrics"] == {"map": 0.01}
    assert [change["kind"] for change in told["history"]] == ["promoted", "promoted", "rolled back"]
    assert {change["by"] for change in told["history"]} == {"person"}


def test_a_choice_is_lifted_by_promote_auto(run, versions):
    registry, (a, b) = versions
    run("promote", a)
    run("promote", b)
    assert registry.is_chosen()
    run("promote", "--auto")
    assert (registry.is_chosen(), registry.champion_version()) == (False, b)
    for wrong in (("promote",), ("promote", a, "--auto")):
        run(*wrong, code=2)


def test_damage_and_unknown_names(run, versions):
    registry, (a, b) = versions
    run("promote", a)
    (registry.folder(b) / MODEL).write_bytes(b"")
    run("promote", b, error=DamagedModel)
    run("promote", "../models", error=UnknownVersion)
    assert registry.champion_version() == a
    (line,) = (line for line in run("models").stdout.splitlines() if f" {b} " in line)
    assert "unusable" in line
    assert [bool(v["damage"]) for v in run("models", "--json").json["versions"]] == [False, True]


def test_two_versions_side_by_side(run, versions):
    _, (one, other) = versions
    shown = run("models", one, other).stdout
    for words in ("day", "2024-03-01", "Metrics", "0.01", "Components that moved most", "users, "):
        assert words in shown
    difference = run("models", one, other, "--json").json
    assert difference["versions"] == [one, other]
    assert difference["settings"] == {"day": ["2024-03-01", "2024-03-02"]}
    run("models", one, "none", error=UnknownVersion)
    run("models", one, code=2)
