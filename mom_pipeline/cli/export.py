"""`mom-pipeline export`: everybody's lists, groups, or the model itself, for others to read."""

from pathlib import Path
from typing import Any

import click

from mom_pipeline.exports.model_file import write_model_file
from mom_pipeline.exports.tables import FORMATS, Output, write_output
from mom_pipeline.settings import load_settings


@click.command()
@click.argument("what", type=click.Choice(["lists", "groups", "model"]))
@click.option("--format", "kind", type=click.Choice(list(FORMATS)), help="[default: csv]")
@click.option(
    "--to", metavar="PATH|URL", help="A file, a .duckdb file, or postgresql://… [default: WHAT.csv]"
)
@click.option("-n", "--n", "n", type=click.IntRange(1), help="Of each person. [default: all]")
def export(what: Any, kind: str | None, to: str | None, n: int | None) -> None:
    """Write everybody's lists, the groups that they belong to, or the model itself.

    A file is replaced as a whole; in a DuckDB file or a PostgreSQL database it is the table
    `mom_lists` or `mom_groups`, replaced in one transaction. Ids are never changed. A model is a
    DuckDB file that answers without us: FROM recommend('USER'), FROM similar('ITEM') and
    FROM explain('USER', 'ITEM'). Write it outside of the data folder: `erase` does not follow it.

    \b
    Examples:
      mom-pipeline export lists --to lists.parquet
      mom-pipeline export groups --to postgresql://localhost/shop
      mom-pipeline export model --to model.duckdb
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    if what == "model":
        path = Path(to or "model.duckdb")
        made = write_model_file(settings, path)
        click.echo(f"{made.people:,} people, {made.items:,} items, model {made.model}, in {path}.")
        return
    output = Output(what, to or f"{what}.{kind or 'csv'}", n=n, format=kind or "")
    done = write_output(settings, output)
    said = f"{done.rows:,} rows of {done.people:,} people, model {done.model}"
    click.echo(f"{said}, in {output.shown}.")
