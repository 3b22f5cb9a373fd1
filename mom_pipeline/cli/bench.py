"""`mom-pipeline bench`: measurements that print ratios against a peer in the same run."""

from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

from mom_pipeline.bench.registry import BENCHES, Bench, Option
from mom_pipeline.cli.terminal import print_json, print_table, step_progress

_Callback = Callable[[click.Context, click.Parameter, str], tuple[str, ...]]


@click.group()
def bench() -> None:
    """Measure accuracy and speed; print tables."""


def _command(entry: Bench) -> click.Command:
    """Return the command of one bench, with its options from the registry."""
    parameters: list[click.Parameter] = [_parameter(option) for option in entry.options]
    if entry.folder:
        existing = click.Path(path_type=Path, exists=True, file_okay=False)
        parameters.append(click.Argument(["folder"], type=existing))
    if entry.plot:
        file = click.Path(path_type=Path, dir_okay=False)
        parameters.append(click.Option(["--plot"], type=file, help=entry.plot))
    as_json = click.Option(
        ["as_json", "--json"], is_flag=True, help="Print JSON instead of a table."
    )

    def run(as_json: bool, plot: Path | None = None, **arguments: Any) -> None:
        _run(entry, arguments, plot, as_json=as_json)

    return click.Command(
        entry.name, params=[*parameters, as_json], callback=run, help=cleandoc(entry.help)
    )


def _run(entry: Bench, arguments: dict[str, Any], plot: Path | None, *, as_json: bool) -> None:
    from mom_pipeline.comparison.results import surroundings

    with step_progress(entry.name) as progress:
        result = entry.run(progress, **arguments)
    if plot is not None:
        entry.draw(result, plot)
    where = surroundings()
    if as_json:
        print_json({**result, **where})
        return
    for table in entry.tables(result):
        columns = list(table.rows[0])
        rows = [list(row.values()) for row in table.rows]
        print_table(table.title, columns, rows, numbers=columns[1:])
    for remark in result.get("remarks", []):
        click.echo(remark)
    click.echo(f"{where['machine']}; {where['created'][:10]}.")


def _parameter(option: Option) -> click.Option:
    kinds: dict[str, Any] = {"type": type(option.default)}
    if option.several:
        kinds = {"callback": _names_among(option.choices)}
    elif option.choices:
        kinds = {"type": click.Choice(option.choices)}
    elif option.least is not None:
        ranges = {int: click.IntRange, float: click.FloatRange}
        kinds = {"type": ranges[type(option.default)](min=option.least)}
    argument = option.argument or option.name.replace("-", "_")
    names = [f"--{option.name}", argument]
    return click.Option(
        names, default=option.default, show_default=True, help=option.help or None, **kinds
    )


def _names_among(known: tuple[str, ...]) -> _Callback:
    """Return the reading of an option: some of the known names, comma-separated."""

    def names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
        given = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        unknown = [name for name in given if name not in known]
        if unknown:
            raise click.BadParameter(
                f"unknown: {', '.join(unknown)}; the known ones are {', '.join(known)}"
            )
        return given

    return names


for _entry in BENCHES.values():
    bench.add_command(_command(_entry))
