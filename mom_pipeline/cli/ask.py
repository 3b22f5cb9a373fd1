"""`mom-pipeline recommend`, `similar` and `explain`: questions to the model in use."""

import csv
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from mom_pipeline.catalogue import as_cell, shortened
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.serving.answers import (
    Contribution,
    Recommendations,
    ScoredItem,
    UnknownItem,
    UnknownUser,
    shown,
)
from mom_pipeline.serving.recommender import MAX_LIST, Recommender
from mom_pipeline.settings import load_settings

_T = TypeVar("_T")
_SHOWN_TERMS = 10
_STDIN = Path("-")
_LENGTH: dict[str, Any] = {"type": click.IntRange(1, MAX_LIST), "default": 20, "show_default": True}
_count_option = click.option("-n", "n", **_LENGTH, help="How many.")
_BY_ITEMS = "Recommend to somebody new who took these items. An id with a comma: in double quotes."


def ids_in(path: Path) -> list[str]:
    """The ids in a file, or in the input, one in each line; empty lines are skipped."""
    data = sys.stdin.buffer.read() if path == _STDIN else path.read_bytes()
    try:
        # Other marks of an end, such as U+2028, may be parts of an id.
        lines = re.split("\r\n|\r|\n", data.decode("utf-8-sig"))
        return [line for line in lines if line]
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} must be UTF-8, with an id in each line: {error}") from error


A_FILE_OF_IDS: dict[str, Any] = {
    "type": click.Path(exists=True, dir_okay=False, path_type=Path),
    "callback": lambda ctx, param, path: tuple(ids_in(path)) if path else None,
}


@click.command()
@click.argument("users", nargs=-1, metavar="USER...")
@click.option("--items", metavar="A,B,C", help=_BY_ITEMS)
@_count_option
@click.option(
    "--only", **A_FILE_OF_IDS, help="File with an item in each line: recommend these alone."
)
@click.option(
    "--not", "without", **A_FILE_OF_IDS, help="File with an item in each line to leave out."
)
@click.option("--group", help="Recommend the items of a group of items.csv alone.")
@click.option("--seen", is_flag=True, help="Also recommend what a user has had already.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, for a spreadsheet.")
@json_option
def recommend(
    users: tuple[str, ...], items: str | None, as_json: bool, as_csv: bool, **chosen: Any
) -> None:
    """Show the best items of each USER, with what contributed most to each; - reads users.

    Users without a history get popular items, and the answer says so. With --items, no user is
    named, and nothing is trained; with both, the USER took these since the model was made.

    \b
    Examples:
      mom-pipeline recommend 17850 --group Drama --not sold-out.txt
      mom-pipeline recommend - -n 5 --csv < newsletter.txt > lists.csv
    """  # noqa: D301 - \b tells click to keep the lines
    asked = [user for word in users for user in (ids_in(_STDIN) if word == "-" else [word])]
    if not asked and items is None:
        raise click.UsageError("Name users, or - to read them, one in each line; or --items.")
    if items is not None and len(asked) > 1:
        raise click.UsageError("--items goes with one USER at most.")
    recommender = Recommender.open(load_settings().data_dir)
    among = recommender.choose(chosen["only"], chosen["without"] or (), chosen["group"])
    how: dict[str, Any] = {"n": chosen["n"], "among": among}
    how["exclude_seen"] = False if chosen["seen"] else None
    # Comma-separated as in a CSV file; empty ids are skipped.
    fresh = [item for row in csv.reader([items or ""]) for item in row if item]
    if asked:
        answers = [recommender.recommend(user, events=fresh, **how) for user in asked]
    else:
        answers = [recommender.recommend_items(fresh, **how)]
    if as_json:
        print_json([answer.model_dump() for answer in answers])
    elif as_csv:
        _print_csv(answers)
    else:
        for answer in answers:
            _print_list(answer, recommender)


@click.command()
@click.argument("item")
@_count_option
@json_option
def similar(item: str, n: int, as_json: bool) -> None:
    """Show the items that go with ITEM most often, compared with how popular they are.

    The score is P[both] / sqrt(P[one] P[other]).
    """
    recommender = Recommender.open(load_settings().data_dir)
    answer = _answered(lambda: recommender.similar(item, n), recommender, item=item)
    if as_json:
        print_json(answer.model_dump())
    else:
        _print_items(f"With {shown(item)}, model {answer.model}", answer.items)


@click.command()
@click.argument("user")
@click.argument("item")
@json_option
def explain(user: str, item: str, as_json: bool) -> None:
    """Take the score of ITEM for USER apart: by part, by component, by item of the history."""
    recommender = Recommender.open(load_settings().data_dir)
    why = _answered(lambda: recommender.explain(user, item), recommender, user=user, item=item)
    if as_json:
        print_json(why.model_dump())
        return
    seen = ", which is in the user's history" if why.seen else ""
    click.echo(f"{shown(item)} for {shown(user)}: score {why.score:.4g}, model {why.model}{seen}")
    click.echo(f"Because of {why.reason}")
    _print_terms("Parts of the score", "part", why.moments)
    if why.components:
        _print_terms("Components", "component", why.components)
    _print_terms("Items of the own history, by what goes with them", "item", why.history)


def _answered(answer: Callable[[], _T], recommender: Recommender, **ids: str) -> _T:
    """The answer; where an id is unknown, the ids that are like it are named."""
    try:
        return answer()
    except (UnknownUser, UnknownItem) as error:
        raise type(error)(f"{error}{recommender.did_you_mean(**ids)}") from None


def _print_list(answer: Recommendations, recommender: Recommender) -> None:
    if answer.note:
        near = recommender.did_you_mean(user=answer.user or "")
        click.echo(f"Note: {answer.note}{near or '.'}", err=True)
    if answer.unknown_items:
        unknown = ", ".join(shown(item) for item in answer.unknown_items[:10])
        near = recommender.did_you_mean(item=answer.unknown_items[0])
        click.echo(f"Unknown items: {unknown}{near}", err=True)
    whom = "somebody new" if answer.user is None else shown(answer.user)
    reasons = [str(line.reason) for line in answer.items]
    _print_items(f"For {whom}, model {answer.model}", answer.items, reasons)


def _print_items(title: str, items: Sequence[ScoredItem], reasons: Sequence[str] = ()) -> None:
    """Print a list with its ranks; without the names where no item has one."""
    columns: dict[str, Sequence[Any]] = {
        "rank": range(1, len(items) + 1),
        "item": [line.item for line in items],
        "name": [shortened(line.name) for line in items],
        "score": [f"{line.score:.4g}" for line in items],
        "because of": reasons,
    }
    kept = {name: values for name, values in columns.items() if any(values) or name != "name"}
    if not reasons:
        del kept["because of"]
    print_table(title, list(kept), zip(*kept.values(), strict=True), whole=["item"])


def _print_csv(answers: Sequence[Recommendations]) -> None:
    """Print lists as CSV; no cell is a formula to a spreadsheet."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["user", "rank", "item", "name", "score", "because of"])
    for answer in answers:
        for rank, line in enumerate(answer.items, start=1):
            texts = (answer.user or "", line.item, line.name, str(line.reason))
            user, item, name, reason = map(as_cell, texts)
            writer.writerow([user, rank, item, name, line.score, reason])


def _print_terms(title: str, column: str, terms: Sequence[Contribution]) -> None:
    rows = [(t.label or t.name, t.contribution, t.share) for t in terms[:_SHOWN_TERMS]]
    if rest := terms[_SHOWN_TERMS:]:
        sums = sum(t.contribution for t in rest), sum(t.share for t in rest)
        rows.append((f"{len(rest)} more", *sums))
    columns = [column, "contribution", "share"]
    lines = [(name, f"{value:.4g}", f"{share:.1%}") for name, value, share in rows]
    print_table(title, columns, lines)
