"""`mom-pipeline compare`, as typed."""

from functools import partial

import pytest

from mom_pipeline.comparison.methods import ALL
from mom_pipeline.comparison.results import ComparisonError, load
from mom_pipeline.comparison.run import Options
from mom_pipeline.errors import DatasetError
from mom_pipeline_tests.cli.conftest import mom

STUBS = "mom_pipeline_tests.comparison.stubs"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    (folder / "pipeline.toml").write_text("[matrix]\nmin_item_users = 3\n")
    sizes = ("--days", "6", "--users", "200", "--items", "40", "--components", "3")
    sizes += ("--first-day", "2024-03-01")
    mom(folder, "simulate", *sizes, "--events", "600")
    return folder


@pytest.fixture
def stubs(root, monkeypatch):
    """The command with stub methods in the place of the real ones."""
    monkeypatch.setattr("mom_pipeline.cli.compare.Options", partial(Options, registry=STUBS))
    return partial(mom, root, "compare")


def test_parts_of_the_score_left_out_in_turn(root):
    methods = ("--methods", "three-moment,without-pairs,without-trend", "--components", "3")
    asked = mom(root, "compare", "--train-until", "2024-03-04", "--parts", *methods, "--json")
    results = asked.json["results"]
    assert [result["name"] for result in results] == methods[1].split(",")
    learnt = [result["settings"]["ranking_weights"] for result in results]
    assert learnt[1]["pairs"] == learnt[2]["trend_14"] == [0, 0]
    assert learnt[0]["pairs"] != [0, 0]


def test_tables_figure_and_the_same_figures_again(root, stubs):
    ask = ("--train-until", "2024-03-04", "--methods", "plain,raises,pairs")
    shown = stubs(*ask).stdout
    for text in (
        "# of Tuples (training)",
        "differences (Δ) to Pairs",
        "– Raises: failed with ZeroDivisionError: nothing to divide by.",
        "the missing positions count as misses",
        "without a history",
    ):
        assert text in " ".join(shown.split())
    folder = root / "comparisons" / "2024-03-06"
    assert (folder / "figure-2.svg").read_bytes().startswith(b"<svg")
    kept = load(folder)
    printed = stubs(*ask, "--json").json
    assert printed["reference"] == "pairs"
    assert printed["n_users"] == kept.n_users
    for before, after in zip(kept.results, printed["results"], strict=True):
        assert {name: list(row) for name, row in before.means.items()} == after["means"]
    assert not list((root / "tmp").glob("compare-*"))
    stubs(*ask[:2], "--methods", "plain", "--include-seen")
    assert load(root / "comparisons" / "2024-03-06-include-seen").exclude_seen is False


def test_real_methods_on_a_ready_split_without_the_library_of_one(tmp_path, monkeypatch):
    """A module in the place of `implicit` that cannot be imported: as if it were not there."""
    (tmp_path / "implicit.py").write_text("raise ImportError('no module named implicit')\n")
    monkeypatch.syspath_prepend(tmp_path)  # of the processes of the methods, too
    (tmp_path / "train.txt").write_text(
        "".join(f"{u} {u % 3} 3 4 {5 + u % 2}\n" for u in range(20))
    )
    (tmp_path / "test.txt").write_text("".join(f"{u} {5 + (u + 1) % 2}\n" for u in range(20)))
    files = ("--train", str(tmp_path / "train.txt"), "--test", str(tmp_path / "test.txt"))
    ask = ("--methods", "wrmf,popularity", "--json")
    printed = mom(tmp_path, "compare", *files, *ask).json
    wrmf, popularity = printed["results"]
    assert "pip install 'mom-pipeline[baselines]'" in wrmf["failure"]
    assert any(said.startswith("– WRMF: a library is missing") for said in printed["remarks"])
    assert popularity["means"]["recall"][0] == 1.0
    assert (tmp_path / "comparisons" / tmp_path.name / "comparison.json").exists()


UNTIL = ("--train-until", "2024-03-04")
FILES = ("--train", "a", "--test", "b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either --train-until or the files --train and --test"),
        (("--train", "a"), "a ready split has two files, --train and --test; found one"),
        ((*UNTIL, *FILES), "give either"),
        ((*FILES, "--test-until", "2024-03-04"), "not to files"),
        (("--train-until", "4 March"), "does not match the format"),
        ((*UNTIL, "--time-budget", "-1"), "is not in the range"),
        ((*UNTIL, "--memory-budget", "inf"), "is not in the range"),
    ],
)
def test_wrong_arguments_are_named(stubs, arguments, message):
    assert message in " ".join(stubs(*arguments, code=2).stderr.split())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (FILES, DatasetError, "a does not exist"),
        ((*UNTIL, "--methods", "magic"), ComparisonError, "the known ones are popular, pairs"),
        ((*UNTIL, "--methods", "pairs", "--reference", "popular"), ComparisonError, "popular is"),
        (("--train-until", "2024-03-06"), ComparisonError, "no events were delivered after that"),
    ],
)
def test_what_cannot_be_compared_is_named(stubs, arguments, error, message):
    assert message in stubs(*arguments, error=error).stderr


def test_a_comparison_without_any_result_takes_nobodys_place(root, stubs):
    ask = ("--train-until", "2024-03-03", "--test-until", "2024-03-05", "--methods")
    stubs(*ask, "plain")
    failed = stubs(*ask, "raises,refuses", code=1).stderr
    assert "no method has a result, and nothing is kept" in failed
    assert "– Raises: failed with ZeroDivisionError: nothing to divide by." in failed
    assert [r.name for r in load(root / "comparisons" / "2024-03-05").results] == ["plain"]


def test_the_help_names_every_method(tmp_path):
    text = mom(tmp_path, "compare", "--help").stdout
    for name in ALL:
        assert name in text
