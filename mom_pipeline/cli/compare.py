"""`mom-pipeline compare`: methods on the same later days; `tune`: what ranks best on them."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
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
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.files import write_bytes
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.pictures import curves, svg
from mom_pipeline.pipeline.choice import ChosenSettings, chosen_on, windows_before
from mom_pipeline.settings import SETTINGS_FILE, Settings, load_settings
from mom_pipeline.settings_file import write_values
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import extend_dictionaries

_FILE = click.Path(path_type=Path, dir_okay=False)
_LIMIT: dict[str, Any] = {"type": click.FloatRange(0, 1e9), "show_default": True}
_K: dict[str, Any] = {"type": click.IntRange(min=1), "default": 100, "show_default": True}
_WRITTEN = ("n_components", "estimator", "rows")
_DAYS = "Last days to learn from, three times.  [default: evaluation.horizon_days]"


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


@click.command()
@click.option("--days", type=click.IntRange(min=1), help=_DAYS)
@click.option("write", "--write", is_flag=True, help="Fix K, estimator and rows in the settings.")
@json_option
def tune(days: int | None, write: bool, as_json: bool) -> None:
    """Learn the weights of the ranking on the last days of the logs, and choose K.

    The weights make what users took later most likely among some hundred candidates each; K and
    the estimator make it most likely given the memberships, as `reports/tuning.svg` draws. The
    pipeline does the same by itself (`tuning.every_days`).
    """
    settings = load_settings()
    ingest_new(settings)
    with progress_bar("learning from the last days"):
        chosen, period = _chosen(settings, days or settings.evaluation.horizon_days)
    path, file = settings.reports_dir / "tuning.svg", settings.data_dir / SETTINGS_FILE
    write_bytes(path, _picture(chosen))
    now, best = settings.model, chosen.model
    own = {name: getattr(best, name) for name in _WRITTEN}
    changes = {f"model.{name}": v for name, v in own.items() if getattr(now, name) != v}
    written = write and bool(changes)
    if written:
        write_values(file, changes)
    if as_json:
        print_json({"period": period, **chosen.as_dict(), "changes": changes, "written": written})
        return
    _show_chosen(chosen, period)
    click.echo(f"Picture: {path}")
    if changes:
        click.echo(f"Written to {file}:" if write else f"`--write` would put into {file}:")
    for key, value in changes.items():
        click.echo(f"  {key} = {value}")
    if written:
        click.echo("`mom-pipeline update` computes the days with it.")


def _chosen(settings: Settings, days: int) -> tuple[ChosenSettings, str]:
    warehouse = Warehouse(settings)
    with warehouse.connect() as connection:
        delivered = delivery_days(connection)
        if delivered:  # days that no run has numbered yet
            extend_dictionaries(connection, delivered[-1])
    until = delivered[-1] - timedelta(days=days) if delivered else None
    if until is None or until < delivered[0]:
        raise TooLittleData(
            f"{len(delivered)} days of logs are too few to learn from the days before the last "
            f"{days}; give fewer with --days, or put more logs into {settings.logs_dir}"
        )
    windows = list(windows_before(warehouse, delivered[-1], horizon=days))
    if not windows:
        raise TooLittleData("no user with a history took anything on the last days; use more days")
    chosen = chosen_on(windows, settings.model_copy(update={"fixed": ()}), delivered[-1])
    return chosen, f"learnt from {len(windows)} times {days} days up to {delivered[-1]}"


def _show_chosen(chosen: ChosenSettings, period: str) -> None:
    click.echo(f"{period}: {chosen.evidence['words']}.")
    weights = asdict(chosen.ranking).items()
    features = [(name, pair) for name, pair in weights if not name.startswith("length_")]
    columns = ["feature", "weight", "by length of history"]
    lines = [(name, f"{weight:+.3f}", f"{slope:+.3f}") for name, (weight, slope) in features]
    print_table("Weights of the ranking", columns, lines)
    best = [getattr(chosen.model, name) for name in _WRITTEN]
    rows = []
    for trial in chosen.evidence["trials"]:
        own = [trial[name] for name in _WRITTEN]
        rows.append((*own, f"{trial['likelihood']:.4f}", "chosen" if own == best else ""))
    columns = ["K", "estimator", "rows", "log-likelihood", ""]
    print_table("Components", columns, rows)


def _picture(chosen: ChosenSettings) -> bytes:
    """The log-likelihood over K of each estimator."""
    trials = chosen.evidence["trials"]
    ks = sorted({t["n_components"] for t in trials})
    known = {(t["estimator"], t["n_components"]): t["likelihood"] for t in trials}
    series = {
        name: [known.get((name, k), float("nan")) for k in ks]
        for name in dict.fromkeys(t["estimator"] for t in trials)
    }
    title, y = "What users took later, given their memberships", "mean log-likelihood"
    return svg(curves(ks, series, title=title, x_label="K, components", y=y))
