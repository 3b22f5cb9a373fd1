"""`mom-pipeline compare`, as typed."""

import json
import os
import subprocess
import sys
from functools import partial

import pytest
from click.testing import CliRunner

from mom_pipeline.cli.compare import compare
from mom_pipeline.comparison.methods import ALL
from mom_pipeline.comparison.results import load
from mom_pipeline.comparison.run import Options
from mom_pipeline_tests.cli.conftest import mom as typed

STUBS = "mom_pipeline_tests.comparison.stubs"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    (folder / "pipeline.toml").write_text("[matrix]\nmin_item_users = 3\n")
    sizes = ("--days", "6", "--users", "200", "--items", "40", "--components", "3")
    sizes += ("--first-day", "2024-03-01")
    typed(folder, "simulate", *sizes, "--events", "600")
    return folder


def mom(root, *arguments, code=0, **environment):
    result = subprocess.run(
        [sys.executable, "-m", "mom_pipeline", *arguments],
        env={**os.environ, "MOM_DATA_DIR": str(root), "COLUMNS": "160", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code, result.stderr
    return result


@pytest.fixture
def stubs(root, monkeypatch):
    """The command in this process, with stub methods in the place of the real ones."""
    monkeypatch.setenv("MOM_DATA_DIR", str(root))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("mom_pipeline.cli.compare.Options", partial(Options, registry=STUBS))
    return lambda *arguments: CliRunner().invoke(compare, arguments, terminal_width=160)


def test_parts_of_the_score_left_out_in_turn(root):
    methods = ("--methods", "three-moment,without-pairs,without-trend", "--components", "3")
    asked = mom(root, "compare", "--train-until", "2024-03-04", "--parts", *methods, "--json")
    results = json.loads(asked.stdout)["results"]
    assert [result["name"] for result in results] == methods[1].split(",")
    learnt = [result["settings"]["ranking_weights"] for result in results]
    assert learnt[1]["pairs"] == learnt[2]["trend_14"] == [0, 0]
    assert learnt[0]["pairs"] != [0, 0]


def test_tables_figure_and_the_same_figures_again(root, tmp_path, stubs):
    ask = ("--train-until", "2024-03-04", "--methods", "plain,raises,pairs")
    shown = stubs(*ask, "--figure", str(tmp_path / "f.svg")).output
    for text in (
        "# of Tuples (training)",
        "differences (Δ) to Pairs",
        "– Raises: failed with ZeroDivisionError: nothing to divide by.",
        "the missing positions count as misses",
        "without a history",
    ):
        assert text in " ".join(shown.split())
    assert (tmp_path / "f.svg").read_bytes().startswith(b"<svg")
    kept = load(root / "comparisons" / "2024-03-06")
    printed = json.loads(stubs(*ask, "--json").stdout)
    assert printed["reference"] == "pairs"
    assert printed["n_users"] == kept.n_users
    for before, after in zip(kept.results, printed["results"], strict=True):
        assert {name: list(row) for name, row in before.means.items()} == after["means"]
    assert not list((root / "tmp").glob("compare-*"))
    assert not stubs(*ask, "--include-seen").exit_code
    assert load(root / "comparisons" / "2024-03-06-include-seen").exclude_seen is False


def test_real_methods_on_a_ready_split_without_the_library_of_one(tmp_path):
    """A module in the place of `implicit` that cannot be imported: as if it were not there."""
    (tmp_path / "implicit.py").write_text("raise ImportError('no module named implicit')\n")
    (tmp_path / "train.txt").write_text(
        "".join(f"{u} {u % 3} 3 4 {5 + u % 2}\n" for u in range(20))
    )
    (tmp_path / "test.txt").write_text("".join(f"{u} {5 + (u + 1) % 2}\n" for u in range(20)))
    files = ("--train", str(tmp_path / "train.txt"), "--test", str(tmp_path / "test.txt"))
    ask = ("compare", *files, "--methods", "wrmf,popularity", "--json")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    printed = json.loads(mom(tmp_path, *ask, PYTHONPATH=paths).stdout)
    wrmf, popularity = printed["results"]
    assert "pip install 'mom-pipeline[baselines]'" in wrmf["failure"]
    assert any(said.startswith("– WRMF: this needs") for said in printed["remarks"])
    assert popularity["means"]["recall"][0] == 1.0
    assert (tmp_path / "comparisons" / tmp_path.name / "comparison.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --train-until or the files --train and --test"),
        (["--train", "a"], "a ready split has two files, --train and --test; found one"),
        (["--train-until", "2024-03-04", "--train", "a", "--test", "b"], "give either"),
        (["--train", "a", "--test", "b", "--test-until", "2024-03-04"], "not to files"),
        (["--train", "a", "--test", "b"], "a does not exist"),
        (["--train-until", "2024-03-04", "--methods", "magic"],
         "unknown method magic; the known ones are popular, pairs"),
        (["--train-until", "2024-03-04", "--methods", "pairs", "--reference", "popular"],
         "the reference popular is not among the methods compared"),
        (["--train-until", "2024-02-04"], "before the first day with events, 2024-03-01"),
        (["--train-until", "2024-03-06"], "no events were delivered after that"),
        (["--train-until", "2024-03-04", "--test-until", "2024-03-03"], "not after the training"),
        (["--train-until", "4 March"], "does not match the format"),
        (["--train-until", "2024-03-04", "--time-budget", "-1"], "is not in the range"),
        (["--train-until", "2024-03-04", "--time-budget", "nan"], "must be finite, or 0 for no"),
        (["--train-until", "2024-03-04", "--memory-budget", "inf"], "must be finite, or 0 for no"),
        (["--train-until", "2024-03-04", "--figure", "/dev/null/f.svg"], "--figure cannot be wri"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(stubs, arguments, message):
    done = stubs(*arguments)
    assert done.exit_code != 0
    said = str(done.exception) if done.exit_code == 1 else done.output
    assert message in said.replace("\n", " ")


def test_a_comparison_without_any_result_takes_nobodys_place(root, stubs):
    ask = ("--train-until", "2024-03-03", "--test-until", "2024-03-05", "--methods")
    stubs(*ask, "plain")
    failed = stubs(*ask, "raises,refuses")
    assert failed.exit_code == 1
    assert "no method has a result, and nothing is kept" in failed.output
    assert "– Raises: failed with ZeroDivisionError: nothing to divide by." in failed.output
    assert [r.name for r in load(root / "comparisons" / "2024-03-05").results] == ["plain"]


def test_no_warehouse_yet(tmp_path, stubs, monkeypatch):
    monkeypatch.setenv("MOM_DATA_DIR", str(tmp_path))
    said = stubs("--train-until", "2024-03-04").exception
    assert "run `mom-pipeline update` first" in str(said)


def test_the_help_names_every_method():
    text = CliRunner().invoke(compare, ["--help"]).output
    for name in ALL:
        assert name in text
