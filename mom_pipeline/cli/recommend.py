"""`mom-pipeline recommend`: lists of the promoted model."""

import csv
from dataclasses import asdict

import click

from mom_pipeline.cli.querying import count_option, promoted_model
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.serving.answers import Recommendations
from mom_pipeline.serving.errors import shown


@click.command()
@click.argument("users", nargs=-1, metavar="USER...")
@click.option(
    "--items", metavar="A,B,C",
    help="Recommend to somebody new who took these items. An id with a comma: in double quotes.",
)  # fmt: skip
@count_option
@click.option("--seen/--unseen", default=None, help="Also recommend what a user has had already.")
@json_option
def recommend(
    users: tuple[str, ...], items: str | None, n: int, seen: bool | None, as_json: bool
) -> None:
    """Show the best items of each USER, with what spoke most for each.

    Users without a history get popular items, and the answer says so. With --items, no user is
    named, and nothing is trained.
    """
    if bool(users) == (items is not None):
        raise click.UsageError("Name users, or items with --items A,B,C; one of both.")
    recommender = promoted_model()
    exclude = None if seen is None else not seen
    if items is not None:
        answers = [recommender.recommend_items(_split(items), n, exclude_seen=exclude)]
    else:
        answers = [recommender.recommend(user, n, exclude_seen=exclude) for user in users]
    if as_json:
        print_json([asdict(answer) for answer in answers])
        return
    for answer in answers:
        _print(answer)


def _split(items: str) -> list[str]:
    """Cut a line of ids at its commas, as in a CSV file; nothing stands for no item."""
    return [item for row in csv.reader([items]) for item in row if item]


def _print(answer: Recommendations) -> None:
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
