"""The command `mom-pipeline`: its sub-commands, imported on use, and what a failure says."""

import gc
import os
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mom_pipeline import __version__
from mom_pipeline.core.errors import MomError

# Command -> its module below `mom_pipeline.cli`, imported on use so that `--help` answers at once,
# and its line of help.
COMMANDS = {
    "demo": ("run", "Run the whole pipeline over the sample logs: a first look."),
    "start": ("sources", "Recommend from rows of your own: a file, a sheet, a database, a folder."),
    "update": ("run", "Compute every day that is missing or stale."),
    "backfill": ("run", "Compute a range of days, in one run."),
    "status": ("status", "Show the model in use and what needs a hand."),
    "accept": ("status", "Accept days that were excluded or dropped."),
    "drop": ("status", "Remove the rows of a day."),
    "simulate": ("sources", "Write sample logs from the generative model."),
    "import": ("sources", "Turn a published dataset into daily log files."),
    "logs": ("status", "Show the ledger: days, rows, rejects, users, items."),
    "report": ("models", "Write an HTML page about the model in use."),
    "models": ("models", "Show the versions of the model, and which one is in use."),
    "promote": ("models", "Put a version of the model in use."),
    "rollback": ("models", "Return to the version that was in use before."),
    "tune": ("compare", "Learn the weights of the ranking on the last days, and choose K."),
    "compare": ("compare", "Compare the method with others on later days, or on a given split."),
    "reproduce": ("bench", "Go through the paper claim by claim, on this machine."),
    "recommend": ("ask", "Recommend items to users, or for a list of items."),
    "similar": ("ask", "Show the items that go with an item."),
    "explain": ("ask", "Show the parts of an item's score for a user."),
    "groups": ("groups", "Show the groups of people, or of some, or write who belongs to one."),
    "sums": ("sums", "Find groups with other shops, none of which shows a person."),
    "export": ("export", "Write everybody's lists or groups to a file or a table."),
    "serve": ("serve", "Show pages and answer over HTTP, by default on this machine only."),
    "token": ("serve", "Make a token for `serve`, or withdraw one."),
    "ui": ("serve", "Serve Dagster's pages for this pipeline, on this machine only."),
    "erase": ("erase", "Remove a person from everything below the data folder."),
    "bench": ("bench", "Measure accuracy and speed; print tables."),
}


# Key of what was typed, in a context's `meta`.
TYPED = "mom_pipeline.typed"


class _LazyGroup(click.Group):
    """A click group whose sub-commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from mom_pipeline.catalogue import did_you_mean  # loads what a command would

            near = did_you_mean(cmd_name, COMMANDS)
            raise click.UsageError(f"there is no command {cmd_name!r}{near}", ctx)
        module = import_module(f"mom_pipeline.cli.{COMMANDS[cmd_name][0]}")
        # `import` is a word of Python: its function is `import_`.
        command: click.Command = getattr(module, "import_" if cmd_name == "import" else cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[TYPED] = list(args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="mom-pipeline")
def cli() -> None:
    """Recommendations from interaction logs by the method of moments.

    Commands work on one data folder: MOM_DATA_DIR, by default `data`. Its settings are in
    `pipeline.toml` there; `mom-pipeline status` shows them.

    \b
    Examples:
      mom-pipeline demo
      mom-pipeline COMMAND --help
    """  # noqa: D301 - \b tells click to keep the lines


def main() -> None:
    """Run the command line; an error that is no fault of the code becomes one message."""
    # Most of what is made here, modules above all, stays: to look for garbage among it so often as
    # by default takes a tenth of a small day.
    gc.set_threshold(50_000, 50, 100)
    os.umask(0o077)  # what is written holds people's ids: for its owner alone
    try:
        cli()
    except Exception as error:
        sentence = str(error) if isinstance(error, MomError) else sentence_for(error)
        if not sentence:
            raise
        click.secho(f"Error: {sentence}", fg="red", err=True)
        sys.exit(1)


def sentence_for(error: BaseException | None) -> str:
    """One sentence about a failure of the machine, be it a cause; "" for any other error."""
    while error is not None:
        words = _words(error)
        if remedy := remedy_for(words):
            return f"{words}. {remedy}"
        error = error.__cause__ or error.__context__
    return ""


def remedy_for(words: str) -> str:
    """What to do about the message of an error; "" when it is none of the machine."""
    known = tomllib.loads(Path(__file__).with_name("remedies.toml").read_text(encoding="utf-8"))
    return next((r["do"] for r in known["remedies"] if any(t in words for t in r["says"])), "")


def told(error: Any) -> tuple[str, str]:
    """What a failed step said, and the remedy; "" where none is known.

    error: as Dagster keeps it. Our own sentence where there is one, else that of the first cause.
    """
    ours, said, remedy, message = _names(MomError), "", "", "no message"
    while error is not None:
        message = error.message.strip()
        said = said or (message if error.cls_name in ours else "")
        remedy = remedy_for(message) or remedy
        error = error.cause
    return said or message, remedy


def _names(kind: type[Any]) -> set[str]:
    """The names of a class and of all that derive from it."""
    return {kind.__name__}.union(*(_names(derived) for derived in kind.__subclasses__()))


def _words(error: BaseException) -> str:
    """What an error of the system, SQLite or DuckDB says, in one line; "" for others."""
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}"
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if names & {"sqlite3", "_duckdb", "duckdb"} and "sqlalchemy" not in names:
        return str(error).partition("\n")[0]
    if names & {"yaml", "dagster"}:
        return " ".join(str(error).split())[:300]
    return ""
