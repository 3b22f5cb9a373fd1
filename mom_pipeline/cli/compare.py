"""`mom-pipeline compare`: the method of moments beside its rivals, all asked the same."""

import math
import re
import tempfile
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.cli.terminal import json_option, print_json, print_table, step_progress
from mom_pipeline.comparison import tables
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.options import REGISTRY, Options, check_options
from mom_pipeline.comparison.results import Comparison, save
from mom_pipeline.comparison.run import run_comparison
from mom_pipeline.comparison.split import Split, split_by_time, split_of_files
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

_DAY: dict[str, Any] = {"type": click.DateTime(["%Y-%m-%d"]), "metavar": "YYYY-MM-DD"}
_FILE = click.Path(path_type=Path, dir_okay=False)
_NAME = re.compile(r"\w[\w. -]*")


@click.command()
@click.option("--train-until", **_DAY, help="Last training day, such as 2011-08-31.")
@click.option("--test-until", **_DAY, help="Last test day.  [default: the last day with events]")
@click.option(
    "--train", type=_FILE, help="Ready split instead: one line per user, `user item ...`."
)
@click.option("--test", type=_FILE, help="Its test part, of the same format and numbers.")
@click.option(
    "--methods", default="", help="Some of the names below, with commas between.  [default: all]"
)
@click.option("--reference", default="", help="Differences are to it.  [default: three-moment]")
@click.option(
    "--components",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="K: classes or factors, for methods whose grid of settings names no others.",
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="The same seed gives the same table.",
)
@click.option(
    "--include-seen",
    is_flag=True,
    help="What a user already took may be listed, and is to be found again.",
)
@click.option(
    "--time-budget",
    default=3600.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for choosing a method's settings, and again for its fit and lists; 0: no limit.",
)
@click.option(
    "--memory-budget",
    default=8.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="GB that a method may ask for; 0: no limit.",
)
@click.option(
    "--threads",
    default="all",
    show_default=True,
    type=click.Choice(["one", "all"]),
    help="Cores of a method; the paper used one.",
)
@click.option("--name", default="", help="Of the data in tables, and of the folder of the result.")
@click.option("--every-cutoff", is_flag=True, help="Also print every metric at every cut-off.")
@click.option("--figure", type=_FILE, help="Also draw the paper's Figure 2 to this PNG file.")
@click.option("--registry", default=REGISTRY, hidden=True, help="Module of the methods.")
@json_option
def compare(
    train_until: datetime | None, test_until: datetime | None, train: Path | None,
    test: Path | None, as_json: bool, figure: Path | None, every_cutoff: bool, name: str,
    include_seen: bool, seed: int, **choices: Any,
) -> None:  # fmt: skip
    """Compare methods on what users took later, as the paper does.

    Each method learns from the days up to --train-until and lists items for every user; a list
    is good when it holds what the user took on the days after. Settings of every method, ours
    and theirs, are chosen on the last training days alone. Each method runs in a process of its
    own, one after another; one that fails or exceeds its budget is shown as – and the rest goes
    on. The test period and the seed decide the figures, to the last digit; timings vary.

    Shown are precision, recall, MAP and nDCG at 20, differences to the reference with paired
    bootstrap intervals, coverage of the catalogue, novelty, times and memory. Everything else,
    every cut-off and user, is kept in `comparisons` below the data folder.

    \b
    Methods:
      popularity    the same list for everybody
      item-knn      items like those taken, by cosine
      plsi          latent classes by EM, with the paper's stopping rule
      wrmf, bpr     matrix factorizations of the library implicit
      ease          a linear item-item model, where memory allows
      mom-paper     method of moments, Algorithm 1 to the letter
      mom-unbiased, mom-balanced
                    with other second and third moments
      three-moment  popularity, pairs and classes together

    \b
    Examples:
      mom-pipeline compare --train-until 2011-08-31
      mom-pipeline compare --train-until 2011-08-31 --methods popularity,wrmf,three-moment
      mom-pipeline compare --train gowalla/train.txt.gz --test gowalla/test.txt.gz
    """  # noqa: D301 - \b tells click to keep the lines
    _check(train_until, test_until, train, test, name)
    _require_writable(figure)
    options = _options(seed=seed, **choices)
    check_options(options)
    settings = load_settings()
    how: dict[str, Any] = {"exclude_seen": not include_seen, "seed": seed}
    with step_progress("reading") as progress, scratch_folder(settings, "compare") as scratch:
        if train is not None and test is not None:
            split = split_of_files(train, test, name=name, **how)
        else:
            split = _time_split(settings, train_until, test_until, name, how)
        comparison = run_comparison(split, options, scratch, progress)
    _require_result(comparison)
    folder = settings.comparisons_dir / (name or comparison.day or comparison.data.name)
    save(comparison, folder)
    if figure is not None:
        from mom_pipeline.comparison.figures import write_figure_2

        write_figure_2(comparison, figure)
    _show(comparison, folder, as_json=as_json, every_cutoff=every_cutoff)


def _check(
    train_until: datetime | None, test_until: datetime | None, train: Path | None,
    test: Path | None, name: str,
) -> None:  # fmt: skip
    """Say which options are missing or do not go together."""
    if (train is None) != (test is None):
        missing = "--test" if test is None else "--train"
        raise click.UsageError(f"a ready split has two files, and {missing} is missing")
    if (train is None) == (train_until is None):
        found = "none of them" if train is None else "both"
        raise click.UsageError(
            f"give either --train-until or the files --train and --test; found {found}"
        )
    if train is not None and test_until is not None:
        raise click.UsageError("--test-until belongs to --train-until, not to files")
    if name and not _NAME.fullmatch(name):
        raise click.UsageError(
            f"--name must be of letters, digits, spaces, dots and dashes, found {name!r}"
        )


def _require_writable(figure: Path | None) -> None:
    """Try the place of the figure at once, not after hours of work."""
    if figure is None:
        return
    try:
        figure.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=figure.parent):
            pass
    except OSError as error:
        raise click.UsageError(
            f"--figure cannot be written to {figure} ({error.strerror}); choose another place"
        ) from error


def _require_result(comparison: Comparison) -> None:
    """Refuse a comparison in which nothing was compared; one that is kept stays in its place."""
    if all(result.failure for result in comparison.results):
        said = "\n".join(tables.failures(comparison))
        raise click.ClickException(f"no method has a result, and nothing is kept:\n{said}")


def _options(
    *, methods: str, reference: str, components: int, seed: int, time_budget: float,
    memory_budget: float, threads: str, registry: str,
) -> Options:  # fmt: skip
    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    if methods and not names:
        raise click.UsageError(f"--methods names none, found {methods!r}; leave it out for all")
    for option, value in (("--time-budget", time_budget), ("--memory-budget", memory_budget)):
        if not math.isfinite(value):
            raise click.UsageError(f"{option} must be finite, or 0 for no limit; found {value}")
    return Options(
        methods=names,
        reference=reference,
        n_components=components,
        seed=seed,
        budget=Budget(time_budget, int(memory_budget * 1e9), 1 if threads == "one" else 0),
        registry=registry,
    )


def _time_split(
    settings: Settings, train_until: datetime | None, test_until: datetime | None, name: str,
    how: dict[str, Any],
) -> Split:  # fmt: skip
    if train_until is None:
        raise click.UsageError("--train-until is missing")
    return split_by_time(
        Warehouse(settings),
        train_until.date(),
        test_until.date() if test_until else None,
        name=name or settings.data_dir.resolve().name,
        **how,
    )


def _show(comparison: Comparison, folder: Path, *, as_json: bool, every_cutoff: bool) -> None:
    remarks = tables.remarks(comparison)
    if as_json:
        bare = tuple(replace(result, per_user={}) for result in comparison.results)
        print_json({**asdict(replace(comparison, results=bare)), "remarks": remarks})
        return
    shown = [
        tables.description_table(comparison),
        tables.time_table(comparison),
        tables.cost_table(comparison),
        tables.metrics_table(comparison),
    ]
    if every_cutoff:
        shown += [tables.cutoff_table(comparison, metric) for metric in tables.METRICS]
    for table in (part for whole in shown for part in whole.parts(Console().width)):
        numbers = [name for name in table.columns if name not in table.words]
        print_table(table.title, table.columns, table.rows, numbers=numbers)
    for remark in remarks:
        click.echo(remark)
    click.echo(f"Kept in {folder}.")
