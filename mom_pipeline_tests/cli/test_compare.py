"""`mom-pipeline compare`, as typed."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from mom_pipeline.cli.compare import compare
from mom_pipeline.cli.main import cli
from mom_pipeline.comparison.results import load

STUBS = "mom_pipeline_tests.comparison.stubs"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    (folder / "pipeline.toml").write_text("[matrix]\nmin_item_users = 3\n")
    sizes = ("--days", "6", "--users", "200", "--items", "40", "--components", "3")
    simulate = ["simulate", *sizes, "--events", "600", "--ingest"]
    environment = {"MOM_DATA_DIR": str(folder)}
    done = CliRunner().invoke(cli, simulate, env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
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


def refused(root, monkeypatch, *arguments):
    """What the command says to wrong arguments; quicker than a process for each."""
    monkeypatch.setenv("MOM_DATA_DIR", str(root))
    done = CliRunner().invoke(compare, [*arguments, "--registry", STUBS])
    assert done.exit_code != 0
    return str(done.exception) if done.exit_code == 1 else done.output.replace("\n", " ")


def test_parts_of_the_score_left_out_in_turn(root):
    methods = ("--methods", "three-moment,without-pairs,without-components", "--components", "3")
    asked = mom(root, "compare", "--train-until", "2024-03-04", "--parts", *methods, "--json")
    results = json.loads(asked.stdout)["results"]
    assert [result["name"] for result in results] == methods[1].split(",")
    assert results[1]["settings"]["pairs"] == results[2]["settings"]["components"] == 0


def test_tables_figure_and_the_same_figures_again(root, tmp_path, monkeypatch):
    ask = ("--train-until", "2024-03-04", "--methods", "plain,raises,pairs", "--registry", STUBS)
    shown = mom(root, "compare", *ask, "--figure", str(tmp_path / "f.png"), "--every-cutoff").stdout
    for text in (
        "# of Tuples (training)",
        "Computation time (sec)",
        "differences (Δ) to Pairs",
        "Precision, ",
        "@500",
        "– Raises: failed with ZeroDivisionError: nothing to divide by.",
        "the missing positions count as misses",
        "without a history",
    ):
        assert text in shown
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    kept = load(root / "comparisons" / "2024-03-06")
    monkeypatch.setenv("MOM_DATA_DIR", str(root))
    again = [*ask, "--json", "--name", "again"]
    printed = json.loads(CliRunner().invoke(compare, again, catch_exceptions=False).stdout)
    assert (root / "comparisons" / "again").is_dir()
    assert printed["reference"] == "pairs"
    assert printed["n_users"] == kept.n_users
    for before, after in zip(kept.results, printed["results"], strict=True):
        assert {name: list(row) for name, row in before.means.items()} == after["means"]
    assert not list((root / "tmp").glob("compare-*"))


def test_real_methods_on_a_ready_split_without_the_library_of_one(tmp_path):
    """A module in the place of `implicit` that cannot be imported: as if it were not there."""
    (tmp_path / "implicit.py").write_text("raise ImportError('no module named implicit')\n")
    (tmp_path / "train.txt").write_text(
        "".join(f"{u} {u % 3} 3 4 {5 + u % 2}\n" for u in range(20))
    )
    (tmp_path / "test.txt").write_text("".join(f"{u} {5 + (u + 1) % 2}\n" for u in range(20)))
    files = ("--train", str(tmp_path / "train.txt"), "--test", str(tmp_path / "test.txt"))
    ask = ("compare", *files, "--methods", "wrmf,popularity", "--threads", "one", "--json")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    printed = json.loads(mom(tmp_path, *ask, PYTHONPATH=paths).stdout)
    wrmf, popularity = printed["results"]
    assert "pip install 'mom-pipeline[baselines]'" in wrmf["failure"]
    assert any(said.startswith("– WRMF: WRMF needs") for said in printed["remarks"])
    assert popularity["means"]["recall"][0] == 1.0
    assert printed["threads"] == 1
    assert (tmp_path / "comparisons" / tmp_path.name / "comparison.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --train-until or the files --train and --test; found none"),
        (["--train", "a"], "a ready split has two files, and --test is missing"),
        (["--train-until", "2024-03-04", "--train", "a", "--test", "b"], "found both"),
        (["--train", "a", "--test", "b", "--test-until", "2024-03-04"], "not to files"),
        (["--train", "a", "--test", "b"], "a does not exist"),
        (["--train-until", "2024-03-04", "--name", "../x"], "--name must be of letters"),
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
        (["--train-until", "2024-03-04", "--memory-budget", "inf"], "--memory-budget must be fin"),
        (["--train-until", "2024-03-04", "--methods", ","], "--methods names none, found ','"),
        (["--train-until", "2024-03-04", "--figure", "/dev/null/f.png"], "--figure cannot be wri"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(root, monkeypatch, arguments, message):
    assert message in refused(root, monkeypatch, *arguments)


def test_a_comparison_without_any_result_takes_nobodys_place(root, monkeypatch):
    ask = ("--train-until", "2024-03-04", "--name", "kept", "--methods")
    monkeypatch.setenv("MOM_DATA_DIR", str(root))
    CliRunner().invoke(compare, [*ask, "plain", "--registry", STUBS], catch_exceptions=False)
    failed = CliRunner().invoke(compare, [*ask, "raises,refuses", "--registry", STUBS])
    assert failed.exit_code == 1
    assert "no method has a result, and nothing is kept" in failed.output
    assert "– Raises: failed with ZeroDivisionError: nothing to divide by." in failed.output
    assert [r.name for r in load(root / "comparisons" / "kept").results] == ["plain"]


def test_no_warehouse_yet(tmp_path, monkeypatch):
    said = refused(tmp_path, monkeypatch, "--train-until", "2024-03-04")
    assert "run `mom-pipeline ingest` first" in said


def test_the_help_names_every_method():
    from mom_pipeline.comparison.methods import METHODS

    text = CliRunner().invoke(compare, ["--help"]).output
    for name in METHODS:
        assert name in text
