"""How many commands and options there are, and that each says what it does."""

import json
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mom_pipeline.cli.main import COMMANDS, cli

MOST_COMMANDS, MOST_OPTIONS = 30, 120


def commands(command: click.Command, parent: click.Context | None) -> Iterator[click.Command]:
    """A command, and all below it."""
    context = click.Context(command, parent=parent)
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, context)


def test_there_are_few_commands_and_options():
    _, *below = commands(cli, None)
    options = [p for one in (cli, *below) for p in one.params if isinstance(p, click.Option)]
    assert len(COMMANDS) <= len(below) <= MOST_COMMANDS
    assert 50 < len(options) <= MOST_OPTIONS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("paper", "--scale", "2"), "`bench paper` has no --scale"),
        (("daily", "--log", "30music", "--days", "3"), "`bench daily` has no --log, --days"),
        (("year",), "`bench year` needs the FOLDER"),
        (("daily", "."), "`bench daily` has no FOLDER"),
        (("nothing",), "recovery"),
    ],
)
def test_a_bench_takes_its_own_options_only(arguments, said):
    shown = CliRunner().invoke(cli, ["bench", *arguments])
    assert shown.exit_code == 2
    assert said in shown.output


def test_bench_recovery_as_table_json_and_picture(tmp_path):
    picture = tmp_path / "recovery.svg"
    arguments = ("bench", "recovery", "--scale", "0.05")
    shown = CliRunner().invoke(cli, [*arguments, "--plot", str(picture)]).stdout
    assert "unbiased," in shown
    assert "cores of" in shown.splitlines()[-1]
    assert picture.read_bytes().startswith(b"<svg")
    result = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    assert len(result["points"]) == 16


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    shown = CliRunner().invoke(cli, [name, "--help"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "Usage:" in shown.stdout
    assert "\\b" not in shown.stdout
