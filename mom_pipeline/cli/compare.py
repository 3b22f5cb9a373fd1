"""`mom-pipeline compare`: the method of moments and other methods on the same split."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.cli.run import ingest_new
from mom_pipeline.cli.terminal import A_DAY, json_option, print_json, print_table, progress_bar
from mom_pipeline.comparison import tables
from mom_pipeline.comparison.isolated import Budget
from mom_pipeline.comparison.methods import PARTS
from mom_pipeline.comparison.results import Comparison, save
from mom_pipeline.comparison.run import Options, check_options, run_comparison
from mom_pipeline.comparison.split import Split, split_by_time, split_of_files
from mom_pipeline.core.files import write_bytes
from mom_pipeline.pictures.svg import svg
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

_FILE = click.Path(path_type=Path, dir_okay=False)
_LIMIT: dict[str, Any] = {"type": click.FloatRange(0, 1e9), "show_default": True}
_K: dict[str, Any] = {"type": click.IntRange(min=1), "default": 100, "show_default": True}


@click.command()
@click.option("--train-until", **A_DAY, help="Last training day, such as 2011-08-31.")
@click.option("--test-until", **A_DAY, help="Last test day.  [default: the last day with events]")
@click.option("--train", type=_FILE, help="Ready split instead: a line per user, `user item ...`.")
@click.option("--test", type=_FILE, help="Its test part, of the same format and numbers.")
@click.option("--methods", default="", help="Some of the above, comma-separated.  [default: all]")
@click.option("--reference", default="", help="Differences are to it.  [default: three-moment]")
@click.option("--components", **_K, help="K, for methods whose grid of settings names no others.")
@click.option("--include-seen", is_flag=True, help="Lists may hold what a user already took.")
@click.option("--time-budget", **_LIMIT, default=3600.0, help="Seconds a method; 0: no limit.")
@click.option("--memory-budget", **_LIMIT, default=8.0, help="GB a method; 0: no limit.")
@click.option("--parts", is_flag=True, help="Ours with each part of its score left out in turn.")
@json_option
def compare(*, include_seen: bool, parts: bool, as_json: bool, **asked: Any) -> None:
    """Compare methods on what users took later, as the paper does.

    Each method learns from the days up to --train-until and lists items for every user; a list
    is good when it holds what the user took on the days after. Settings of every method, ours
    and theirs, are chosen on the last training days alone. Each method runs in a process of its
    own, one after another, with a budget for choosing its settings and again for its fit and lists;
    one that fails or exceeds it is shown as – and the rest goes on. The test period decides the
    figures, to the last digit; timings vary.

    Shown are precision, recall, MAP and nDCG at 20, differences to the reference with paired
    bootstrap intervals, nDCG by length of history and by age of item, coverage of the catalogue,
    novelty, times and memory. Everything else, every cut-off and user, is kept in `comparisons`
    below the data folder, and the paper's Figure 2 as `figure-2.svg`.

    \b
    Methods:
      popularity    the same list for everybody
      recent-popularity
                    the same, by the users of late; how late is chosen
      own-history   what the user took most often, for --include-seen
      item-knn      items like those taken, by the library implicit
      plsi          latent components by EM, with the paper's stopping rule
      wrmf, bpr     matrix factorizations, by the same library
      ease          a linear item-item model, where memory allows
      ease-trend    the same times the trend of the items
      mom-algorithm-1
                    the paper's Algorithm 1: power method with deflation, product rule
      mom-paper     the paper's moments and product rule, decomposed all at once, smoothed
      mom-unbiased, mom-balanced
                    with other second and third moments
      three-moment  co-occurrences, EASE and the days of the items, weights learnt on later days

    \b
    Examples:
      mom-pipeline compare --train-until 2011-08-31
      mom-pipeline compare --train-until 2011-08-31 --methods popularity,wrmf,three-moment
      mom-pipeline compare --train gowalla/train.txt.gz --test gowalla/test.txt.gz
    """  # noqa: D301 - \b tells click to keep the lines
    _check_split(asked)
    names = tuple(name.strip() for name in asked["methods"].split(",") if name.strip())
    options = Options(
        methods=names or (PARTS if parts else ()),
        reference=asked["reference"],
        n_components=asked["components"],
        budget=Budget(asked["time_budget"], int(asked["memory_budget"] * 1e9)),
    )
    check_options(options)
    settings = load_settings()
    with progress_bar("reading") as progress, scratch_folder(settings, "compare") as scratch:
        split = _split(settings, asked, exclude_seen=not include_seen)
        comparison = run_comparison(split, options, scratch, progress)
    if all(result.failure for result in comparison.results):  # a stored one stays
        said = "\n".join(tables.failures(comparison))
        raise click.ClickException(f"no method has a result, and nothing is kept:\n{said}")
    unusual = {"parts": parts, "include-seen": include_seen}
    words = [comparison.day or comparison.data.name, *(w for w, is_so in unusual.items() if is_so)]
    folder = settings.comparisons_dir / "-".join(words)
    save(comparison, folder)
    write_bytes(folder / "figure-2.svg", svg(*tables.figure_2(comparison)))
    _show(comparison, folder, as_json=as_json)


def _check_split(asked: Mapping[str, Any]) -> None:
    if (asked["train"] is None) != (asked["test"] is None):
        raise click.UsageError("a ready split has two files, --train and --test; found one")
    if (asked["train"] is None) == (asked["train_until"] is None):
        raise click.UsageError("give either --train-until or the files --train and --test")
    if asked["train"] is not None and asked["test_until"] is not None:
        raise click.UsageError("--test-until belongs to --train-until, not to files")


def _split(settings: Settings, asked: Mapping[str, Any], *, exclude_seen: bool) -> Split:
    """The two files, or the days of the warehouse, new files included."""
    if asked["train"] is not None:
        return split_of_files(asked["train"], asked["test"], exclude_seen=exclude_seen)
    ingest_new(settings)
    name, ends = settings.data_dir.resolve().name, (asked["train_until"], asked["test_until"])
    return split_by_time(Warehouse(settings), *ends, name=name, exclude_seen=exclude_seen)


def _show(comparison: Comparison, folder: Path, *, as_json: bool) -> None:
    remarks = tables.remarks(comparison)
    if as_json:
        print_json({**comparison.summary(), "remarks": remarks})
        return
    shown = (
        tables.description_table(comparison),
        tables.cost_table(comparison),
        tables.metrics_table(comparison),
        *tables.group_tables(comparison),
    )
    for table in shown:
        print_table(table.caption, table.columns, table.rows)
    for remark in remarks:
        click.echo(remark)
    click.echo(f"Kept in {folder}.")
