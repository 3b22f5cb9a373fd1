"""`mom-pipeline similar`: items that go with one."""

from dataclasses import asdict

import click

from mom_pipeline.cli.querying import count_option, promoted_model
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.serving.errors import shown


@click.command()
@click.argument("item")
@count_option
@json_option
def similar(item: str, n: int, as_json: bool) -> None:
    """Show the items that go with ITEM most often, compared with how popular they are.

    The score is P[both] / sqrt(P[one] P[other]).
    """
    answer = promoted_model().similar(item, n)
    if as_json:
        print_json(asdict(answer))
        return
    rows = [(rank, line.item, f"{line.score:.4g}") for rank, line in enumerate(answer.items, 1)]
    title = f"With {shown(item)}, model {answer.model}"
    print_table(title, ["rank", "item", "score"], rows, numbers=["score"])
