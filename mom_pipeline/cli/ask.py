"""`mom-pipeline recommend`, `similar` and `explain`: questions to the promoted model."""

import csv
from collections.abc import Sequence

import click

from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.serving.answers import Contribution, Recommendations, shown
from mom_pipeline.serving.recommender import MAX_LIST, Recommender
from mom_pipeline.settings import load_settings

_SHOWN_TERMS = 10
_count_option = click.option(
    "-n", "n", type=click.IntRange(1, MAX_LIST), default=20, show_default=True, help="How many."
)
_BY_ITEMS = "Recommend to somebody new who took these items. An id with a comma: in double quotes."


@click.command()
@click.argument("users", nargs=-1, metavar="USER...")
@click.option("--items", metavar="A,B,C", help=_BY_ITEMS)
@_count_option
@click.option("--seen/--unseen", default=None, help="Also recommend what a user has had already.")
@json_option
def recommend(
    users: tuple[str, ...], items: str | None, n: int, seen: bool | None, as_json: bool
) -> None:
    """Show the best items of each USER, with what contributed most to each.

    Users without a history get popular items, and the answer says so. With --items, no user is
    named, and nothing is trained.
    """
    if bool(users) == (items is not None):
        raise click.UsageError("Name users, or items with --items A,B,C; one of both.")
    recommender = _promoted_model()
    exclude = None if seen is None else not seen
    if items is not None:
        answers = [recommender.recommend_items(_split(items), n, exclude_seen=exclude)]
    else:
        answers = [recommender.recommend(user, n, exclude_seen=exclude) for user in users]
    if as_json:
        print_json([answer.model_dump() for answer in answers])
        return
    for answer in answers:
        _print_list(answer)


@click.command()
@click.argument("item")
@_count_option
@json_option
def similar(item: str, n: int, as_json: bool) -> None:
    """Show the items that go with ITEM most often, compared with how popular they are.

    The score is P[both] / sqrt(P[one] P[other]).
    """
    answer = _promoted_model().similar(item, n)
    if as_json:
        print_json(answer.model_dump())
        return
    rows = [(rank, line.item, f"{line.score:.4g}") for rank, line in enumerate(answer.items, 1)]
    title = f"With {shown(item)}, model {answer.model}"
    print_table(title, ["rank", "item", "score"], rows, numbers=["score"])


@click.command()
@click.argument("user")
@click.argument("item")
@json_option
def explain(user: str, item: str, as_json: bool) -> None:
    """Take the score of ITEM for USER apart: by moment, by component, by item of the history."""
    answer = _promoted_model().explain(user, item)
    if as_json:
        print_json(answer.model_dump())
        return
    seen = ", which is in the user's history" if answer.seen else ""
    click.echo(
        f"{shown(item)} for {shown(user)}: score {answer.score:.4g}, model {answer.model}{seen}"
    )
    click.echo(f"Because of {answer.reason}")
    _print_terms("Moments", "moment", answer.moments)
    if answer.components:
        _print_terms("Components", "component", answer.components)
    _print_terms("Items of the own history", "item", answer.history)


def _promoted_model() -> Recommender:
    settings = load_settings()
    return Recommender.open(settings.data_dir, exclude_seen=settings.serving.exclude_seen)


def _split(items: str) -> list[str]:
    """Split comma-separated ids as a CSV file does; empty ones are skipped."""
    return [item for row in csv.reader([items]) for item in row if item]


def _print_list(answer: Recommendations) -> None:
    if answer.note:
        click.echo(f"Note: {answer.note}.", err=True)
    if answer.unknown_items:
        unknown = ", ".join(shown(item) for item in answer.unknown_items[:10])
        click.echo(f"Unknown items: {unknown}", err=True)
    whom = "somebody new" if answer.user is None else shown(answer.user)
    rows = [
        (rank, line.item, f"{line.score:.4g}", str(line.reason))
        for rank, line in enumerate(answer.items, start=1)
    ]
    title = f"For {whom}, model {answer.model}"
    print_table(title, ["rank", "item", "score", "because of"], rows, numbers=["score"])


def _print_terms(title: str, column: str, terms: Sequence[Contribution]) -> None:
    rows = [(t.name, f"{t.contribution:.4g}", f"{t.share:.1%}") for t in terms[:_SHOWN_TERMS]]
    if rest := terms[_SHOWN_TERMS:]:
        left, share = sum(t.contribution for t in rest), sum(t.share for t in rest)
        rows.append((f"{len(rest)} more", f"{left:.4g}", f"{share:.1%}"))
    columns = [column, "contribution", "share"]
    print_table(title, columns, rows, numbers=columns[1:])
