"""`mom-pipeline groups`: the groups of all people or of some, one of them, names, an audience."""

from datetime import date
from typing import Any

import click

from mom_pipeline.catalogue import shortened
from mom_pipeline.cli.ask import A_FILE_OF_IDS
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.groups.names import keep_groups, renamed
from mom_pipeline.segments import SegmentedDay, SegmentModel, Selection
from mom_pipeline.serving.answers import Group, GroupPage, Groups, NamedItem, TypicalItem
from mom_pipeline.serving.groups import KnownGroups
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.rules import Rules
from mom_pipeline.settings import Settings, load_settings

_DAYS_SHOWN, _ITEMS_OF_SEGMENT = 14, 5
_SEGMENT: dict[str, Any] = {"multiple": True, "metavar": "COLUMN=VALUE"}


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME | rename OLD NEW | audience [NAME] | segments]")
@click.option("--segment", **_SEGMENT, help="Of these people alone, by a column of users.csv.")
@click.option("--without", **_SEGMENT, help="Of all people, or of a segment, but these.")
@click.option(
    "--against", metavar="OTHER", help="What sets NAME apart from it; is a segment like it?"
)
@click.option(
    "--at-least",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Who belongs: P[group | person].",
)
@click.option(
    "--like", **A_FILE_OF_IDS, help="An audience like the people in a file, an id a line."
)
@click.option("--to", metavar="PATH|URL", help="Where an audience goes, as in `export`.")
@json_option
def groups(words: tuple[str, ...], as_json: bool, **asked: Any) -> None:
    """Show the groups of people that the model in use has found, or one of them.

    A group is named by what sets it apart from everybody; `rename` gives it a name that stays,
    also when models are made anew. A group is also known by its number. "Uncertain" are groups
    that two halves of the people, each looked at alone, do not both have.

    `audience` writes who belongs to a group, with P, or with --like who takes like some people;
    their likeness is 1 for the same mixture of groups.

    With --segment or --without they are the groups of some people, as if the model had been made
    of them alone. Columns stand in users.csv in the data folder: user,country,channel and so on;
    `segments` lists their values. Values of one column can be taken together and left out: sums
    are added and taken away, which equals a fit on those people through the basis of the model in
    use. The first question about a column of a day reads all rows; later ones read sums.

    \b
    Examples:
      mom-pipeline groups "Mostly Jazz" --against "Mostly Rock"
      mom-pipeline groups rename "Mostly Jazz" "Jazz collectors"
      mom-pipeline groups audience "Jazz collectors" --at-least .8 --to campaign.csv
      mom-pipeline groups --segment country=Germany --segment country=Austria
      mom-pipeline groups --segment country=Germany --against country=France
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    what, *rest = words or ("",)
    if what == "audience" and (rest or asked["like"] or asked["to"]):
        _audience(settings, rest, asked)
        return
    if asked["like"] is not None or asked["to"] is not None:
        raise click.UsageError("--like and --to go with `groups audience`.")
    if what == "rename" and rest:
        _rename(settings, rest)
        return
    if rest:
        said = f"Give one NAME, in quotes where it has spaces: {' '.join(words)!r}."
        raise click.UsageError(said)
    if what == "segments" or asked["segment"] or asked["without"]:
        _of_segment(settings, what, asked, as_json=as_json)
        return
    known = Recommender.open(settings.data_dir).groups
    how = {"against": asked["against"] or "", "at_least": asked["at_least"]}
    answer = known.page(what, **how) if what else known.all
    if as_json:
        print_json(answer.model_dump())
    elif isinstance(answer, GroupPage):
        _print_one(answer)
    else:
        _print_all(answer)


def _rename(settings: Settings, rest: list[str]) -> None:
    if len(rest) != 2:
        raise click.UsageError("`groups rename` takes OLD and NEW; names with spaces in quotes.")
    known = Recommender.open(settings.data_dir).groups
    names = renamed(known.names, *rest)
    keep_groups(settings, names)
    k = known.position(rest[0])
    old, new = known.names[k].name, names[k].name
    click.echo(f"{old!r} is called {new!r} from now on, on every page and in every export.")


def _audience(settings: Settings, rest: list[str], asked: dict[str, Any]) -> None:
    from mom_pipeline.exports.tables import Output, write_audience  # DuckDB, for this alone

    like, at_least, to = asked["like"], asked["at_least"], asked["to"]
    if not to or len(rest) > 1 or bool(rest) == bool(like):
        raise click.UsageError("`groups audience` takes a NAME or --like FILE, and --to.")
    known = Recommender.open(settings.data_dir).groups
    if like:
        name, people = "like those", known.alike(like, at_least)
    else:
        k = known.position(rest[0])
        name, people = known.names[k].name, known.belonging(k, at_least)
    output = Output("audience", to)
    done = write_audience(settings, output, name, people)
    click.echo(f"{done.rows:,} people, model {done.model}, in {output.shown}.")


def _of_segment(settings: Settings, what: str, asked: dict[str, Any], *, as_json: bool) -> None:
    """The columns of people, whether two segments are alike, or the groups of one."""
    served = ModelRegistry(settings.models_dir).champion()
    ids = [str(user) for user in served.user_ids]
    people = SegmentedDay(settings, date.fromisoformat(served.manifest.day), ids)
    if what == "segments":
        counts = people.columns.counts(ids)
        if as_json:
            print_json([{"segment": segment, "people": n} for segment, n in counts])
        else:
            print_table("Segments", ["segment", "people"], counts)
        return
    selection = Selection.parse(asked["segment"], asked["without"])
    if asked["against"]:
        _print_likeness(people, selection, Selection.parse([asked["against"]]), as_json=as_json)
    else:
        known = KnownGroups(served, Rules.of(settings))
        _print_segment(people.model(selection), known, what, as_json=as_json)


def _print_segment(model: SegmentModel, known: KnownGroups, name: str, *, as_json: bool) -> None:
    """The groups of a segment, or that which is nearest to one of all."""
    wanted, ids = known.position(name) if name else None, known.served.item_ids
    rows: list[dict[str, Any]] = [
        {"group": k + 1, "name": known.names[k].name, "share": share, "items": ids[items].tolist()}
        for k, share, items in model.typical(_ITEMS_OF_SEGMENT)
        if wanted in (None, k)
    ]
    if as_json:
        print_json({"segment": model.words, "people": model.people, "groups": rows})
        return
    label = known.rules.catalogue.label
    columns = ["nearest group of all", "share", "typical items"]
    lines = [(r["name"], f"{r['share']:.1%}", "\n".join(map(label, r["items"]))) for r in rows]
    counted = f"{model.people:,} people, {len(rows)} groups (spectral estimate)"
    print_table(f"{model.words}: {counted}", columns, lines)


def _print_likeness(
    people: SegmentedDay, one: Selection, other: Selection, *, as_json: bool
) -> None:
    found = people.compare(one, other)
    if as_json:
        said = {"one": one.words, "other": other.words, "distance": found.distance}
        print_json(said | {"p_value": found.p_value, "shares": found.shares.tolist()})
        return
    alike = "alike, as far as can be told" if found.p_value > 0.05 else "not alike"
    click.echo(
        f"{one.words} and {other.words} are {alike}: {found.distance:.3f} of their people are in "
        f"other groups, p = {found.p_value:.3f} (999 permutations)."
    )


def _print_all(said: Groups) -> None:
    if said.supported is not None:
        others = f"; on {said.unsupported} more they do not" if said.unsupported else ""
        click.echo(
            f"Your {said.people:,} people support {said.supported} groups by their second moment; "
            f"twice as many would support about {said.supported_by_twice}. Shown are those on "
            f"which two halves of the people agree better than by chance{others}."
        )
    columns = ["name", "people", "share", "95 %", "four weeks", "typical items", "support"]
    rows = [
        (
            group.name,
            group.people,
            f"{group.size:.1%}",
            _interval(group.size_interval),
            _trend(group),
            "\n".join(map(_typical, group.items[:3])),
            _support(group),
        )
        for group in said.groups
    ]
    counted = f", sizes from {said.from_sample:,} of them" if said.from_sample else ""
    title = f"{len(rows)} groups of {said.people:,} people{counted}, model {said.model}"
    print_table(title, columns, rows)


def _print_one(page: GroupPage) -> None:
    share = f"{page.size:.1%} of all [{_interval(page.size_interval)}]"
    click.echo(f"{page.name}, group {page.number} of model {page.model}")
    click.echo(f"{page.people:,} people, {share}; in four weeks: {_trend(page)}")
    click.echo(
        f"Support: {_support(page)}. {page.members:,} people with P of {page.at_least:g} or more"
    )
    taken = [(*_cells(i), f"{i.taken:.1%}", _interval(i.taken_interval)) for i in page.apart]
    title = f"What sets it apart from {page.against or 'everybody'}"
    print_table(title, ["item", "name", "taken by", "95 %"], taken)
    if page.against:
        others = map(_cells, page.the_other_takes)
        print_table(f"{page.against} takes more", ["item", "name"], others)
    rows = [(*_cells(item), f"{item.share:.0%}", f"{item.usual:.0%}") for item in page.next]
    columns = ["item", "name", "in their lists", "in all"]
    print_table("What they take next", columns, rows)
    days = list(zip(page.days, page.by_day, page.by_day_interval, strict=True))[-_DAYS_SHOWN:]
    lines = [(day, f"{share:.1%}", _interval(around)) for day, share, around in days]
    title = "Its share of the people of the week up to a day"
    print_table(title, ["day", "share", "95 %"], lines)


def _interval(around: tuple[float, float]) -> str:
    return f"{around[0]:.1%} – {around[1]:.1%}"


def _typical(item: TypicalItem) -> str:
    """An item, the share of the group's people who took it, and the half of its 95 % interval."""
    low, high = item.taken_interval
    name = shortened(item.name or item.item)
    return f"{name}, {item.taken:.0%} ± {50 * (high - low):.0f}"


def _trend(group: Group) -> str:
    """The change in points of percent; steady where it is within its error."""
    if group.change is None or group.change_error is None:
        return "not known yet"
    if abs(group.change) <= group.change_error:
        return "steady"
    return f"{100 * group.change:+.1f} ± {100 * group.change_error:.1f} points"


def _support(group: Group) -> str:
    if group.agreement is None:
        return "not known"
    return f"{group.agreement:.2f}" + (", uncertain" if group.uncertain else "")


def _cells(item: NamedItem) -> tuple[str, str]:
    return item.item, shortened(item.name)
