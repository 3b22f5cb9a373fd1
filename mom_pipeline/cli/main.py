"""The command `mom-pipeline`: its sub-commands are in the files of `mom_pipeline.cli`."""

import sys
from importlib import import_module

import click

from mom_pipeline import __version__
from mom_pipeline.core.errors import MomError

# Command name -> module below `mom_pipeline.cli` and its help line. Modules are
# imported only when their command runs, so that `--help` answers at once.
COMMANDS = {
    "demo": ("demo", "Run the whole pipeline over the sample logs: a first look."),
    "update": ("update", "Bring every day that is missing or stale up to date."),
    "backfill": ("backfill", "Materialize a range of days, in one run."),
    "status": ("status", "Show days, settings and sizes on disk."),
    "simulate": ("sources", "Write sample logs from the generative model."),
    "import": ("sources", "Turn a published dataset into daily log files."),
    "ingest": ("logs", "Bring log files into the warehouse, exactly once."),
    "logs": ("logs", "Show the ledger: days, rows, rejects, users, items."),
    "report": ("report", "Write a page about the model of a day."),
    "models": ("models", "Show the versions of the model, and which is in use."),
    "promote": ("models", "Put a version of the model in use."),
    "rollback": ("models", "Return to the version that was in use before."),
    "tune": ("tune", "Choose K and the other settings on the last days."),
    "compare": ("compare", "Compare the method with its rivals on later days, or a ready split."),
    "recommend": ("recommend", "Recommend items to users, or to somebody new by items."),
    "similar": ("similar", "Show the items that go with one."),
    "explain": ("explain", "Take the score of an item for a user apart."),
    "serve": ("serve", "Answer over HTTP, on this machine unless told otherwise."),
    "ui": ("ui", "Open Dagster's pages on this pipeline, with its daemon, on this machine only."),
    "erase": ("erase", "Remove a person from everything below the data folder."),
    "bench": ("bench", "Measure accuracy and speed; print tables."),
}


class _LazyGroup(click.Group):
    """A click group whose sub-commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module_name, _ = COMMANDS[cmd_name]
        module = import_module(f"mom_pipeline.cli.{module_name}")
        # `import` is a word of Python: its function is `import_`.
        name = cmd_name if hasattr(module, cmd_name) else f"{cmd_name}_"
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mom-pipeline")
def cli() -> None:
    """Recommendations from interaction logs by the method of moments."""


def main() -> None:
    """Run the command line; an error of the project becomes one message and exit code 1."""
    try:
        cli()
    except MomError as error:
        click.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(1)
