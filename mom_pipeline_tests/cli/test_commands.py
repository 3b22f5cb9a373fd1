"""How many commands and options there are, and that each says what it does."""

from collections.abc import Iterator

import click
import pytest

from mom_pipeline.bench.paper import METHODS, SIZES
from mom_pipeline.cli.main import COMMANDS, cli
from mom_pipeline_tests.cli.conftest import mom

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
    ("words", "said"),
    [
        ("paper --scale 2", "`bench paper` has no --scale"),
        ("daily --log 30music --days 3", "`bench daily` has no --log, --days"),
        ("year", "`bench year` needs the FOLDER"),
        ("daily .", "`bench daily` has no FOLDER"),
        ("nothing", "recovery"),
        ("paper --sizes netflix", ", ".join(SIZES)),
        ("paper --methods magic", ", ".join(METHODS)),
    ],
)
def test_a_bench_takes_its_own_options_only(tmp_path, words, said):
    assert said in " ".join(mom(tmp_path, "bench", *words.split(), code=2).stderr.split())


def test_bench_recovery_as_table_and_json(tmp_path):
    arguments = ("bench", "recovery", "--scale", "0.05")
    shown = mom(tmp_path, *arguments).stdout
    assert "unbiased," in shown
    assert "cores of" in shown.splitlines()[-1]
    assert len(mom(tmp_path, *arguments, "--json").json["points"]) == 16


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(tmp_path, name):
    shown = mom(tmp_path, name, "--help").stdout
    assert "Usage:" in shown
    assert "\\b" not in shown
