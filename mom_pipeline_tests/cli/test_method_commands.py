import json

import pytest
from click.testing import CliRunner

from mom_pipeline.cli.main import COMMANDS, cli


def run(*arguments):
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_bench_recovery_as_table_json_and_picture(tmp_path):
    picture = tmp_path / "recovery.png"
    shown = run("bench", "recovery", "--max-users", "5000", "--plot", str(picture)).stdout
    assert "unbiased," in shown
    assert picture.exists()
    result = json.loads(run("bench", "recovery", "--max-users", "5000", "--json").stdout)
    assert len(result["points"]) == 4


def test_bench_kernels_as_json(monkeypatch):
    monkeypatch.setattr("mom_pipeline.bench.kernels._GEMM_SIZE", 256)
    sizes = ("--users", "2000", "--items", "900", "--pairs", "9000", "--components", "8")
    result = json.loads(run("bench", "kernels", *sizes, "--json").stdout)
    assert (result["n_users"], result["n_items"], result["n_components"]) == (2000, 900, 8)
    assert "cores of" in result["machine"]


def test_bench_topn_as_table_and_json():
    sizes = ("--users", "400", "--items", "300", "--pairs", "4000", "--components", "3")
    shown = run("bench", "topn", *sizes).stdout
    assert "identical lists" in shown
    assert "cores of" in shown.splitlines()[-1]
    result = json.loads(run("bench", "topn", *sizes, "--length", "7", "--json").stdout)
    assert result["equal_up_to_rounding"] == result["checked_users"] == 400
    assert result["length"] == 7


def test_bench_metrics_as_table_and_json():
    sizes = ("--users", "600", "--peer-users", "50", "--items", "2000")
    assert "times as fast" in run("bench", "metrics", *sizes).stdout
    assert json.loads(run("bench", "metrics", *sizes, "--json").stdout)["users"] == 600


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    assert "Usage:" in run(name, "--help").stdout
