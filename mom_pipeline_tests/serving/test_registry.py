import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.artifacts.versions import MANIFEST, seal
from mom_pipeline.core.errors import DamagedModel, ModelOfOtherVersion
from mom_pipeline.core.files import sha256_of
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.erasure.search import files_with
from mom_pipeline.serving.registry import (
    PERSON,
    POINTER,
    VERSIONS,
    DamagedPointer,
    ModelRegistry,
    NoChampion,
    NothingToRollBack,
    UnknownVersion,
)
from mom_pipeline.serving.served_model import MODEL, PEOPLE, Manifest
from mom_pipeline_tests.running import flip

from .conftest import figures

USER = "user 117"  # a part of no other id


def day_of(served) -> set[int]:
    """The day as each of the three files tells it: one number, or the version is a mixture."""
    popularity = served.model.popularity
    return {
        int(served.manifest.day[-2:]),
        int(served.item_ids[0].split("/")[0]),
        round(float(popularity[0] / popularity[1])),
    }


def test_equal_content_is_one_version_that_is_never_written_again(registry, make):
    version = registry.add(make(1))
    assert version.startswith("2024-03-01-")
    before = {path: path.stat().st_mtime_ns for path in registry.folder(version).iterdir()}
    assert registry.add(make(1)) == version
    assert {path: path.stat().st_mtime_ns for path in before} == before
    other = make(1)
    other = replace(other, manifest=replace(other.manifest, metrics={"map": 0.5}))
    assert registry.add(other) != version
    assert registry.load(version).manifest.version == version
    assert day_of(registry.load(version)) == {1}
    assert sorted(path.name for path in (registry.root / VERSIONS).iterdir()) == sorted(
        registry.names()
    )


def test_what_was_saved_comes_back(registry, make):
    served = replace(make(1), figures=figures({"2024-03-01": (0.1, 0.2, 0.3)}))
    served.item_ids[-2:] = ["naïve \n'\"", "="]
    served.user_ids[-1] = "ü" * 300
    again = registry.load(registry.add(served))
    assert again.manifest == replace(served.manifest, version=again.manifest.version)
    assert list(again.item_ids) == list(served.item_ids)
    assert again.user_positions == served.user_positions
    assert again.figures == served.figures
    assert (again.histories != served.histories).nnz == 0
    assert (again.last_days != served.last_days).nnz == 0
    np.testing.assert_array_equal(again.model.item_probs, served.model.item_probs)


def test_a_version_of_the_format_before_is_refused_with_what_to_do(registry, make):
    """Format 1 had no format in the manifest, and its own name there."""
    folder = registry.folder(registry.add(make(1)))
    version = "2024-03-01-0123456789ab"
    sums = {name: sha256_of(folder / name) for name in (MODEL, PEOPLE)}
    manifest = Manifest.read(folder).facts | {"version": version, "sha256": sums}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    folder.rename(folder.with_name(version))
    with pytest.raises(DamagedModel, match=r"has format 1, .* `mom-pipeline update` computes it"):
        registry.load(version)
    assert "format 1" in registry.versions()[0].damage


def test_a_champion_of_another_version_says_that_an_update_makes_one(registry, make, monkeypatch):
    """A folder after an upgrade: nothing is damaged, and the champion before is no better."""
    version = registry.add(make(1))
    registry.promote(version, "better")
    monkeypatch.setattr("mom_pipeline.core.persistence._VERSION", 99)
    with pytest.raises(ModelOfOtherVersion, match="`mom-pipeline update` computes") as refused:
        registry.champion()
    assert "rollback" not in str(refused.value)


def test_promotions_and_rollbacks(registry, make):
    a, b, c = (registry.add(make(day)) for day in (1, 2, 3))
    assert registry.champion_version() is None
    with pytest.raises(NoChampion, match="mom-pipeline promote VERSION"):
        registry.champion()
    for version in (a, b, b, c):
        registry.promote(version, "better")
    assert day_of(registry.champion()) == {3}
    assert registry.rollback() == b
    assert registry.rollback() == a
    with pytest.raises(NothingToRollBack, match="promote"):
        registry.rollback()
    assert registry.champion_version() == a
    registry.promote(c, "again")
    assert registry.rollback("it was slow") == a
    kinds = ["promoted"] * 3 + ["rolled back"] * 2 + ["promoted", "rolled back"]
    expected = list(zip([a, b, c, b, a, c, a], kinds, strict=True))
    assert [(p.version, p.kind) for p in registry.history()] == expected
    assert registry.history()[-1].reason == "it was slow"
    assert registry.history()[0].time.endswith("+00:00")


@pytest.mark.parametrize("name", [MODEL, PEOPLE, MANIFEST])
def test_a_damaged_version_is_not_promoted_and_the_champion_stays(registry, make, name):
    good, bad = registry.add(make(1)), registry.add(make(2))
    registry.promote(good, "first")
    flip(registry.folder(bad) / name)
    with pytest.raises(DamagedModel):
        registry.promote(bad, "no")
    assert day_of(registry.champion()) == {1}
    assert [bool(entry.damage) for entry in registry.versions()] == [False, True]
    (registry.folder(bad) / name).unlink()
    assert [bool(entry.damage) for entry in registry.versions()] == [False, True]
    assert registry.add(make(2)) == bad  # the same model again repairs it
    flip(registry.folder(bad) / name)  # and shares no damaged file with it
    assert registry.add(make(2)) == bad
    assert [entry.damage for entry in registry.versions()] == ["", ""]
    registry.promote(bad, "whole again")
    flip(registry.folder(good) / name)
    with pytest.raises(DamagedModel):
        registry.rollback()
    assert registry.champion_version() == bad


def test_an_edited_manifest_is_damage(registry, make):
    version = registry.add(make(1))
    folder = registry.folder(version)
    facts = Manifest.read(folder).facts
    (folder / MANIFEST).unlink()
    seal(folder, facts | {"metrics": {"map": 1.0}})
    with pytest.raises(DamagedModel, match="not the manifest of"):
        registry.promote(version, "")
    assert registry.versions()[0].damage


@pytest.mark.parametrize("name", ["", "..", "../../etc", "2024-03-01-0123456789ab", "=HYPERLINK("])
def test_unknown_versions(registry, make, name):
    registry.add(make(1))
    with pytest.raises(UnknownVersion, match="mom-pipeline models"):
        registry.promote(name, "")


ROLLED_BACK_TOO_OFTEN = {"version": "a", "time": "", "kind": "rolled back", "reason": ""}


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b"[]", json.dumps({"promotions": [ROLLED_BACK_TOO_OFTEN]}).encode()]
)
def test_a_damaged_pointer_says_what_to_do(registry, make, content):
    registry.promote(registry.add(make(1)), "")
    (registry.root / POINTER).write_bytes(content)
    with pytest.raises(DamagedPointer, match="remove it"):
        registry.champion()


def test_retention_keeps_what_is_in_use(registry, make):
    names = sorted(registry.add(make(day)) for day in (2, 3, 1, 4, 5, 6))
    assert registry.names() == names
    for version in names[:3]:
        registry.promote(version, "")
    assert registry.remove_old(0) == []
    assert registry.remove_old(2) == [names[0], names[3]]
    assert registry.names() == [names[1], names[2], names[4], names[5]]
    assert registry.rollback() == names[1]


def test_forgetting_keeps_the_champion_alone_and_leaves_nothing_behind(registry, make):
    assert registry.forget([USER]) == 0
    assert not registry.root.exists()
    a, b, c = (registry.add(make(day)) for day in (1, 2, 3))
    for version in (a, b, c):
        registry.promote(version, "why", by=PERSON)
    assert f"{VERSIONS}/{a}/{PEOPLE}" in files_with(registry.root, [USER])
    flip(registry.folder(b) / PEOPLE)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left_over = registry.root / VERSIONS / f".new.0123.{ended.pid}.tmp"
    left_over.mkdir()
    assert registry.forget([USER]) == 3
    assert files_with(registry.root, [USER]) == []
    assert registry.names() == [registry.champion_version()]
    assert registry.is_chosen()
    served, before = registry.champion(), make(3)
    assert USER not in served.user_positions
    for user in ("user 116", "user 118"):
        np.testing.assert_array_equal(served.history(user), before.history(user))
    for path in registry.root.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert not any(name.encode() in data or name in str(path) for name in (a, b, c))
    assert not left_over.exists()
    assert registry.forget([USER]) == 0
    flip(registry.folder(registry.names()[0]) / PEOPLE)
    assert (registry.forget([USER]), registry.names()) == (1, [])


def test_one_version_is_left_and_a_choice_of_a_person_stays_one(registry, make):
    a, b = registry.add(make(1)), registry.add(make(2))
    registry.promote(a, "better")
    registry.promote(b, "by hand", by=PERSON)
    c = registry.add(make(3))
    with pytest.raises(UnknownVersion):
        registry.leave_only("2024-03-04-0123456789ab", "")
    assert registry.names() == [a, b, c]
    registry.leave_only(c, "without her")
    assert (registry.names(), registry.champion_version()) == ([c], c)
    assert registry.is_chosen()
    with pytest.raises(NothingToRollBack):
        registry.rollback()
    registry.leave_only(None, "nobody is left")
    assert (registry.names(), registry.champion_version()) == ([], None)


def test_the_hash_of_the_content_minds_all_but_the_numbers_of_components(make):
    served = make(1)
    order = np.arange(len(served.model.weights))[::-1]
    O, pi = served.model.item_probs[:, order], served.model.weights[order]
    renumbered = replace(served, model=replace(served.model, item_probs=O, weights=pi))
    assert renumbered.content_hash == served.content_hash
    ids = np.append(served.user_ids[:-1], "somebody else")
    days = served.last_days + served.last_days
    for other in (replace(served, user_ids=ids), replace(served, last_days=days), make(1, users=9)):
        assert other.content_hash != served.content_hash


@pytest.mark.parametrize("dated", [True, False])
def test_pairs_and_days_lose_the_history(make, dated):
    served = make(1)
    X, days = served.histories, served.last_days.copy()
    days.data = np.random.default_rng(0).integers(700_000, 700_030, days.nnz).astype(float)

    def ranking(rows):
        return PairRanking.from_users(UsersInMemory(X[rows], days[rows] if dated else None))

    whole = ranking(np.arange(X.shape[0]))
    served = replace(served, last_days=days, model=replace(served.model, pair_ranking=whole))
    left = served.without_users([USER])
    ours, expected = left.model.pair_ranking, ranking(np.delete(np.arange(X.shape[0]), 117))
    for part in ("counts", "ease", *(["days"] if dated else [])):
        np.testing.assert_equal(
            getattr(ours, part).as_arrays(), getattr(expected, part).as_arrays()
        )
    assert left.last_days.nnz == left.histories.nnz < X.nnz
    no_pairs = replace(whole, counts=whole.counts.nothing())
    with pytest.raises(DamagedModel):
        replace(served, model=replace(served.model, pair_ranking=no_pairs)).without_users([USER])


def test_an_item_that_nobody_else_has_loses_its_name_and_is_listed_no_more(make):
    served = make(1)
    X = served.histories.tolil()
    X[:, 7] = 0
    X[117, 7] = 1
    X = sparse.csr_array(X)
    left = replace(served, histories=X, last_days=X).without_users([USER])
    assert (left.item_ids[7], left.model.candidates[7]) == ("", False)
    assert left.model.popularity.sum() == pytest.approx(1)
    assert (left.item_ids == "").sum() == (np.diff(left.histories.tocsc().indptr) == 0).sum()


def test_a_champion_that_is_replaced_and_removed_while_it_is_read(registry, make):
    a, b = registry.add(make(1)), registry.add(make(2))
    registry.promote(a, "")

    class Slow(ModelRegistry):
        def load(self, version):
            if version == a:
                registry.promote(b, "meanwhile")
                shutil.rmtree(registry.folder(a))
            return super().load(version)

    assert day_of(Slow(registry.root).champion()) == {2}


def test_writers_in_other_processes_take_turns(registry, make):
    """Each change is another version than the one before, so none may be missing at the end."""
    pairs = [[registry.add(make(day)), registry.add(make(day + 1))] for day in (1, 3)]
    turns = 20
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from mom_pipeline.serving.registry import ModelRegistry\n"
        "registry = ModelRegistry(Path(sys.argv[1]))\n"
        f"for turn in range({turns}):\n"
        "    registry.promote(sys.argv[2], 'a')\n    registry.promote(sys.argv[3], 'b')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(registry.root), *pair], env=environment)
        for pair in pairs
    ]
    assert [process.wait(timeout=60) for process in started] == [0, 0]
    changes = [entry.version for entry in registry.history()]
    assert len(changes) == 2 * turns * len(pairs)
    assert registry.champion_version() == changes[-1]


def test_the_version_in_use_as_of_a_day(registry, make):
    a, b, c = (registry.add(make(day)) for day in (1, 3, 4))
    registry.promote(a, "")
    registry.promote(c, "")
    as_of = {day: registry.version_as_of(date(2024, 3, day)) for day in range(1, 6)}
    assert as_of == {1: a, 2: a, 3: a, 4: c, 5: c}
    registry.promote(b, "by hand", by=PERSON)
    assert registry.version_as_of(date(2024, 3, 5)) == b
    registry.rollback()
    assert registry.version_as_of(date(2024, 3, 5)) == c
    assert registry.version_as_of(date(2024, 2, 29)) is None
