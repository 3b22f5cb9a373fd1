"""`mom-pipeline segments`: the groups of some people, by the columns of `users.csv`."""

from datetime import date
from typing import Any

import click

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.segments import SegmentedDay, Selection
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings

_ITEMS = 5


@click.command()
@click.argument("chosen", nargs=-1, metavar="[COLUMN=VALUE]...")
@click.option("--without", multiple=True, metavar="COLUMN=VALUE", help="Leave these people out.")
@click.option(
    "--against", metavar="COLUMN=VALUE", help="Are the people alike? A p-value of permutations."
)
@json_option
def segments(
    chosen: tuple[str, ...], without: tuple[str, ...], against: str | None, as_json: bool
) -> None:
    """Show the groups of some people, as if the model had been made of them alone.

    Columns stand in users.csv in the data folder: user,country,channel and so on. Values of one
    column can be taken together and left out: sums are added and taken away, which equals a fit on
    those people through the basis of the model in use. The first question about a column of a day
    reads all rows; later ones read sums. Without any COLUMN=VALUE: the columns and their values.

    \b
    Examples:
      mom-pipeline segments country=Germany country=Austria
      mom-pipeline segments --without channel=ads
      mom-pipeline segments country=Germany --against country=France
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    served = ModelRegistry(settings.models_dir).champion()
    ids = [str(user) for user in served.user_ids]
    segmented = SegmentedDay(settings, date.fromisoformat(served.manifest.day), ids)
    if not chosen and not without:
        _print_columns(segmented, ids, as_json=as_json)
        return
    selection = Selection.parse(chosen, without)
    if against:
        found = segmented.compare(selection, other := Selection.parse([against]))
        said = {"one": selection.words, "other": other.words, "distance": found.distance}
        said |= {"p_value": found.p_value, "shares": found.shares.tolist()}
        if as_json:
            print_json(said)
            return
        alike = "alike, as far as can be told" if found.p_value > 0.05 else "not alike"
        click.echo(
            f"{selection.words} and {other.words} are {alike}: {found.distance:.3f} of their "
            f"people are in other groups, p = {found.p_value:.3f} (999 permutations)."
        )
        return
    model = segmented.model(selection)
    labels, ids_of_items = Catalogue.open(settings.data_dir), served.item_ids
    rows: list[dict[str, Any]] = [
        {"group": group + 1, "share": share, "items": [str(ids_of_items[i]) for i in items]}
        for group, share, items in model.typical(_ITEMS)
    ]
    if as_json:
        print_json({"segment": model.words, "people": model.people, "groups": rows})
        return
    title = f"{model.words}: {model.people:,} people, {len(rows)} groups (spectral estimate)"
    shown = [
        (row["group"], f"{row['share']:.1%}", "\n".join(map(labels.label, row["items"])))
        for row in rows
    ]
    print_table(title, ["nearest group of all", "share", "typical items"], shown)


def _print_columns(segmented: SegmentedDay, ids: list[str], *, as_json: bool) -> None:
    counts = segmented.columns.counts(ids)
    rows = [{"segment": segment, "people": people} for segment, people in counts]
    if as_json:
        print_json(rows)
        return
    print_table("Segments", ["segment", "people"], [tuple(row.values()) for row in rows])
