"""`mom-pipeline groups`: the groups of people, one of them, their names, and an audience."""

import click

from mom_pipeline.catalogue import shortened
from mom_pipeline.cli.ask import A_FILE_OF_IDS
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.groups.names import keep_groups, renamed
from mom_pipeline.serving.answers import Group, GroupPage, NamedItem, TypicalItem
from mom_pipeline.serving.groups import KnownGroups
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.settings import Settings, load_settings

_DAYS_SHOWN = 14
_WORDS = "[NAME | rename OLD NEW | audience [NAME]]"


@click.command()
@click.argument("words", nargs=-1, metavar=_WORDS)
@click.option("--against", metavar="OTHER", help="What sets NAME apart from another group.")
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
def groups(
    words: tuple[str, ...],
    against: str | None,
    at_least: float,
    like: tuple[str, ...] | None,
    to: str | None,
    as_json: bool,
) -> None:
    """Show the groups of people that the model in use has found, or one of them.

    A group is named by what sets it apart from everybody; `rename` gives it a name that stays,
    also when models are made anew. A group is also known by its number. "Uncertain" are groups
    that two halves of the people, each looked at alone, do not both have.

    `audience` writes who belongs to a group, with P, or with --like who takes like some people;
    their likeness is 1 for the same mixture of groups.

    \b
    Examples:
      mom-pipeline groups "Mostly Jazz" --against "Mostly Rock"
      mom-pipeline groups rename "Mostly Jazz" "Jazz collectors"
      mom-pipeline groups audience "Jazz collectors" --at-least .8 --to campaign.csv
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    what, *rest = words or ("",)
    if what == "audience" and (rest or like or to):
        _audience(settings, rest, like, at_least, to)
    elif like is not None or to is not None:
        raise click.UsageError("--like and --to go with `groups audience`.")
    elif what == "rename" and rest:
        _rename(settings, rest)
    elif rest:
        raise click.UsageError(
            f"Give one NAME, in quotes where it has spaces: {' '.join(words)!r}."
        )
    elif not what:
        _print_all(Recommender.open(settings.data_dir).groups, as_json=as_json)
    else:
        known = Recommender.open(settings.data_dir).groups
        _print_one(known.page(what, against=against or "", at_least=at_least), as_json=as_json)


def _rename(settings: Settings, rest: list[str]) -> None:
    if len(rest) != 2:
        raise click.UsageError("`groups rename` takes OLD and NEW; names with spaces in quotes.")
    known = Recommender.open(settings.data_dir).groups
    names = renamed(known.names, *rest)
    keep_groups(settings, names)
    old, new = known.names[known.position(rest[0])].name, names[known.position(rest[0])].name
    click.echo(f"{old!r} is called {new!r} from now on, on every page and in every export.")


def _audience(
    settings: Settings,
    rest: list[str],
    like: tuple[str, ...] | None,
    at_least: float,
    to: str | None,
) -> None:
    from mom_pipeline.exports.tables import Output, write_audience  # DuckDB, for this alone

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


def _print_all(known: KnownGroups, *, as_json: bool) -> None:
    said = known.all
    if as_json:
        print_json(said.model_dump())
        return
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
            "\n".join(f"{_named(item)}, {_within(item)}" for item in group.items[:3]),
            _support(group),
        )
        for group in said.groups
    ]
    counted = f", sizes from {said.from_sample:,} of them" if said.from_sample else ""
    title = f"{len(rows)} groups of {said.people:,} people{counted}, model {said.model}"
    print_table(title, columns, rows)


def _print_one(page: GroupPage, *, as_json: bool) -> None:
    if as_json:
        print_json(page.model_dump())
        return
    share = f"{page.size:.1%} of all [{_interval(page.size_interval)}]"
    click.echo(f"{page.name}, group {page.number} of model {page.model}")
    click.echo(f"{page.people:,} people, {share}; in four weeks: {_trend(page)}")
    click.echo(
        f"Support: {_support(page)}. {page.members:,} people with P of {page.at_least:g} or more"
    )
    apart = f"from {page.against}" if page.against else "from everybody"
    taken = [(*_cells(i), f"{i.taken:.1%}", _interval(i.taken_interval)) for i in page.apart]
    columns = ["item", "name", "taken by", "95 %"]
    print_table(f"What sets it apart {apart}", columns, taken)
    if page.against:
        print_table(
            f"{page.against} takes more", ["item", "name"], map(_cells, page.the_other_takes)
        )
    rows = [(*_cells(item), f"{item.share:.0%}", f"{item.usual:.0%}") for item in page.next]
    columns = ["item", "name", "in their lists", "in all"]
    print_table("What they take next", columns, rows)
    days = list(zip(page.days, page.by_day, page.by_day_interval, strict=True))[-_DAYS_SHOWN:]
    lines = [(day, f"{share:.1%}", _interval(around)) for day, share, around in days]
    title = "Its share of the people of the week up to a day"
    print_table(title, ["day", "share", "95 %"], lines)


def _interval(around: tuple[float, float]) -> str:
    return f"{around[0]:.1%} – {around[1]:.1%}"


def _within(item: TypicalItem) -> str:
    """The share of a group's people who took an item, and the half of its 95 % interval."""
    low, high = item.taken_interval
    return f"{item.taken:.0%} ± {50 * (high - low):.0f}"


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


def _named(item: NamedItem) -> str:
    return shortened(item.name or item.item)


def _cells(item: NamedItem) -> tuple[str, str]:
    return item.item, shortened(item.name)
