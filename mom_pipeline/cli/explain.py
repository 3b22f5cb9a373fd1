"""`mom-pipeline explain`: what a score is made of."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from mom_pipeline.cli.querying import promoted_model
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.serving.answers import Contribution
from mom_pipeline.serving.errors import shown

_SHOWN = 10


@click.command()
@click.argument("user")
@click.argument("item")
@json_option
def explain(user: str, item: str, as_json: bool) -> None:
    """Take the score of ITEM for USER apart: by moment, by component, by item of the history."""
    answer = promoted_model().explain(user, item)
    if as_json:
        print_json(asdict(answer) | {"strongest_item": answer.strongest_item})
        return
    seen = ", which is in the user's history" if answer.seen else ""
    click.echo(
        f"{shown(item)} for {shown(user)}: score {answer.score:.4g}, model {answer.model}{seen}"
    )
    click.echo(f"Because of {answer.reason}")
    _print("Moments", "moment", answer.moments)
    if answer.components:
        _print("Components (parts of the classes)", "component", answer.components)
    _print("Items of the own history", "item", answer.history)


def _print(title: str, column: str, terms: Sequence[Contribution]) -> None:
    rows = [(term.name, f"{term.contribution:.4g}", f"{term.share:.1%}") for term in terms[:_SHOWN]]
    if len(terms) > _SHOWN:
        rest = terms[_SHOWN:]
        left, share = sum(t.contribution for t in rest), sum(t.share for t in rest)
        rows.append((f"{len(rest)} more", f"{left:.4g}", f"{share:.1%}"))
    columns = [column, "contribution", "share"]
    print_table(title, columns, rows, numbers=columns[1:])
