"""`mom-pipeline sums`: groups of the people of several shops, of which none shows a person."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import click

from mom_pipeline.catalogue import Catalogue, lines_of
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.core.groups.shared import CannotShare, SharedSums, shared_sums
from mom_pipeline.pipeline.days import Days
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings

_A_FILE: dict[str, Any] = {"type": click.Path(exists=True, dir_okay=False, path_type=Path)}
_NEW_FILE: dict[str, Any] = {"type": click.Path(dir_okay=False, path_type=Path), "required": True}
_ITEMS = 5


@click.command()
@click.argument("what", type=click.Choice(["export", "merge", "leave"]))
@click.argument("files", nargs=-1, metavar="[FILE]...", **_A_FILE)
@click.option("--to", **_NEW_FILE, help="The file to write.")
@click.option("--through", **_A_FILE, help="Export through the basis of another shop's file.")
@click.option("--same-items", **_A_FILE, help="CSV ours,theirs: items that have another id there.")
@json_option
def sums(
    what: str,
    files: tuple[Path, ...],
    to: Path,
    through: Path | None,
    same_items: Path | None,
    as_json: bool,
) -> None:
    """Find the groups of several shops' people together, from files without any person in them.

    The first shop exports its sums, the others export theirs --through that file; any of them
    merges the files, and one leaves to the last digit. The components are those of a fit on all
    rows through the same basis. Items are the same where their ids are; others go in a CSV.

    Sums are of 200 people or more, and no number of fewer than 20: items with fewer takers are
    left out and counted. A person of two shops counts in both. Two exports of one shop differ by
    those who came in between: share one. Who is erased stays in files that were shared before.

    \b
    Examples:
      mom-pipeline sums export --to ours.npz
      mom-pipeline sums export --through theirs.npz --to ours.npz
      mom-pipeline sums merge theirs.npz ours.npz --to both.npz
      mom-pipeline sums leave both.npz ours.npz --to rest.npz
    """  # noqa: D301 - \b tells click to keep the lines
    if what == "export":
        if files:
            raise click.UsageError("`sums export` takes --to and --through, no other FILE.")
        _export(to, through, same_items, as_json=as_json)
        return
    if len(files) < 2 or (what == "leave" and len(files) > 2) or through or same_items:
        raise click.UsageError("`sums merge` takes two files or more, `sums leave` ALL and ONE.")
    each = [SharedSums.load(path) for path in files]
    result = reduce(add, each) if what == "merge" else each[0] - each[1]
    groups = [{"share": share, "items": items} for share, items in result.typical(_ITEMS)]
    result.save(to)
    if as_json:
        print_json({"shops": result.shops, "people": result.n_users, "groups": groups})
        return
    labels = Catalogue.open(load_settings().data_dir)
    shown = [
        (f"{share:.1%}", "\n".join(map(labels.label, items)))
        for share, items in result.typical(_ITEMS)
    ]
    title = (
        f"{len(shown)} groups of {result.n_users:,} people ({len(result.shops)} exports), in {to}"
    )
    print_table(title, ["share", "typical items"], shown)


def _export(to: Path, through: Path | None, same_items: Path | None, *, as_json: bool) -> None:
    """Write the sums of the model in use."""
    settings = load_settings()
    served, days = ModelRegistry(settings.models_dir).champion(), Days(settings)
    day = date.fromisoformat(served.manifest.day)
    other = SharedSums.load(through) if through else None
    renamed = _renamed(same_items) if same_items else {}
    made, left_out = shared_sums(
        served.histories,
        _with_ids_of_theirs(served.item_ids, renamed),
        days.moments(day)[0],
        days.decompose_settings(day),
        other.frame if other else None,
    )
    made.save(to)
    own = made.taken_items
    common = len(own & other.taken_items) if other else None
    if as_json:
        said = {"people": made.n_users, "items": len(own), "common_items": common}
        print_json(said | {"left_out": left_out})
        return
    others = "" if common is None else f", {common:,} of them in the other file, the rest new to it"
    click.echo(
        f"{to}: sums of {made.n_users:,} people and {len(own):,} items{others}. Left out: "
        f"{left_out['items']:,} items of fewer than 20 people with {left_out['item_pairs']:,} "
        f"pairs of items, and {left_out['users']:,} people of fewer than 2 items."
    )


def _renamed(path: Path) -> Mapping[str, str]:
    """Their id by ours, each once."""
    lines = lines_of(path)
    if lines is None or not {"ours", "theirs"} <= set(lines.fieldnames or []):
        raise CannotShare(f"{path}: expected the columns ours,theirs; correct the first line")
    pairs = [(line["ours"], line["theirs"]) for line in lines]
    renamed = dict(pairs)
    if len(renamed) < len(pairs) or len(set(renamed.values())) < len(pairs):
        raise CannotShare(f"{path}: each item stands once, on either side")
    return renamed


def _with_ids_of_theirs(ids: Iterable[Any], renamed: Mapping[str, str]) -> list[str]:
    """The ids that are shared, "" for an item that lost its own."""
    if unknown := sorted(renamed.keys() - set(ids)):
        raise CannotShare(f"the model in use knows no item {unknown[0]!r}; correct --same-items")
    theirs = [renamed.get(str(own), str(own)) for own in ids]
    twice = [name for name, n in Counter(theirs).items() if name and n > 1]
    if twice:
        raise CannotShare(f"two of the items would be {twice[0]!r}")
    return theirs
