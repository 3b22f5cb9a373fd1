"""`mom-pipeline export`: everybody's lists, or groups, as a file or as a table elsewhere."""

from typing import Any

import click

from mom_pipeline.exports.tables import FORMATS, Output, write_output
from mom_pipeline.settings import load_settings


@click.command()
@click.argument("what", type=click.Choice(["lists", "groups"]))
@click.option("--format", "kind", type=click.Choice(list(FORMATS)), help="[default: csv]")
@click.option(
    "--to", metavar="PATH|URL", help="A file, a .duckdb file, or postgresql://… [default: WHAT.csv]"
)
@click.option("-n", "--n", "n", type=click.IntRange(1), help="Of each person. [default: all]")
def export(what: Any, kind: str | None, to: str | None, n: int | None) -> None:
    """Write everybody's lists, or the groups that everybody belongs to, of the model in use.

    A file is replaced as a whole; in a DuckDB file or a PostgreSQL database it is the table
    `mom_lists` or `mom_groups`, replaced in one transaction. Ids are never changed. Write it
    outside of the data folder: `erase` does not follow it.

    \b
    Examples:
      mom-pipeline export lists --to lists.parquet
      mom-pipeline export groups --to postgresql://localhost/shop
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    output = Output(what, to or f"{what}.{kind or 'csv'}", n=n, format=kind or "")
    done = write_output(settings, output)
    said = f"{done.rows:,} rows of {done.people:,} people, model {done.model}"
    click.echo(f"{said}, in {output.shown}.")
