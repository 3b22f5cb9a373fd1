"""The table of the paper at toy sizes, by real processes: what it holds, never how fast it was."""

import json
from itertools import product

import pytest
from click.testing import CliRunner

from mom_pipeline.bench.paper import METHODS, SIZES, THREADS, PaperSize, run_paper
from mom_pipeline.cli.bench import bench
from mom_pipeline.cli.main import cli

TOY = PaperSize("toy", "Toy", 300, 200, 2_400, {"mom": 10, "bpr": 5, "plsi": 30})
# No process so much as starts within this many seconds.
NO_TIME = 1e-3


@pytest.fixture(scope="module")
def toy():
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SIZES, "toy", TOY)
        result = run_paper(["toy"], n_components=4, progress=lambda *news: told.append(news))
    (size,) = result["sizes"]
    return size, told


def row_of(size, method, threads):
    (row,) = (r for r in size["rows"] if (r["method"], r["threads"]) == (method, threads))
    return row


def test_every_method_has_a_row_for_each_mode_of_threads(toy):
    size, _ = toy
    runs = {(row["method"], row["threads"]) for row in size["rows"]}
    assert runs == set(product(METHODS, THREADS))
    assert len(size["rows"]) == len(runs)
    for row in size["rows"]:
        assert row["failure"] == ""
        # An interpreter with numpy alone takes more than this.
        assert row["peak_bytes"] > 20_000_000


def test_size_is_exact(toy):
    size, _ = toy
    assert (size["n_users"], size["n_items"], size["n_pairs"]) == (300, 200, 2_400)


def test_ratios_are_to_mom_in_the_same_mode(toy):
    size, _ = toy
    for method, mode in product(METHODS, THREADS):
        expected = row_of(size, method, mode)["seconds"] / row_of(size, "mom", mode)["seconds"]
        assert row_of(size, method, mode)["to_mom"] == pytest.approx(expected)
    assert row_of(size, "plsi", "one")["paper_to_mom"] == 3
    assert row_of(size, "wrmf", "one")["paper_seconds"] is None


def test_stages_of_mom_fit_into_its_time(toy):
    size, _ = toy
    for mode in THREADS:
        row = row_of(size, "mom", mode)
        stages = row["notes"]["stages"]
        assert list(stages) == ["whitening", "tensor", "decomposition", "personalization"]
        assert 0 < sum(stages.values()) <= row["seconds"]


def test_progress_never_goes_back(toy):
    _, told = toy
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] < 1


def test_sizes_are_those_of_the_paper():
    sizes = [(size.n_users, size.n_items, size.n_pairs) for size in SIZES.values()]
    assert sizes == [
        (24_304, 21_533, 417_246),
        (110_000, 163_206, 1_450_933),
        (1_000_000, 718_675, 5_669_541),
    ]


@pytest.fixture
def toy_as_tafeng(monkeypatch):
    monkeypatch.setitem(SIZES, "tafeng", TOY)


@pytest.mark.usefixtures("toy_as_tafeng")
def test_a_method_over_its_budget_is_shown_as_a_dash():
    options = ("--sizes", "tafeng", "--methods", "bpr,plsi", "--threads", "one")
    arguments = ("bench", "paper", *options, "--time-budget", str(NO_TIME))
    shown = CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout
    for title in ("BPR", "PLSI"):
        (line,) = (line for line in shown.splitlines() if line.startswith(f"│ {title}"))
        assert [cell.strip() for cell in line.split("│")[3:6]] == ["–"] * 3
        assert f"{title}, threads one: takes longer than the 0.001 s allowed" in shown
    assert "stages of MoM" not in shown


@pytest.mark.usefixtures("toy_as_tafeng")
def test_table_and_json_of_one_method():
    arguments = ("bench", "paper", "--sizes", "tafeng", "--methods", "mom", "--threads", "all")
    shown = CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout
    assert "Toy: 300 users, 200 items, 2,400 pairs" in shown
    assert "personalization" in shown
    asked = CliRunner().invoke(cli, (*arguments, "--json"), catch_exceptions=False).stdout
    (row,) = json.loads(asked)["sizes"][0]["rows"]
    assert (row["method"], row["threads"], row["to_mom"]) == ("mom", "all", 1)


@pytest.mark.parametrize(("option", "known"), [("--sizes", SIZES), ("--methods", METHODS)])
def test_unknown_names_are_refused_with_the_known_ones(option, known):
    result = CliRunner().invoke(cli, ("bench", "paper", option, "netflix"))
    assert result.exit_code != 0
    for name in known:
        assert name in result.output


def test_command_offers_all_sizes_and_methods():
    defaults = {p.name: p.default for p in bench.commands["paper"].params}
    assert defaults["sizes"] == ",".join(SIZES)
    assert defaults["methods"] == ",".join(METHODS)
