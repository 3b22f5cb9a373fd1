"""`mom-pipeline tune`: the weights of the ranking and K, as the last days of the logs have them."""

from dataclasses import asdict
from datetime import timedelta

import click

from mom_pipeline.cli.run import ingest_new
from mom_pipeline.cli.terminal import json_option, print_json, print_table, progress_bar
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.files import write_bytes
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.pictures.charts import curves
from mom_pipeline.pictures.svg import svg
from mom_pipeline.pipeline.choice import ChosenSettings, chosen_on, windows_before
from mom_pipeline.settings import SETTINGS_FILE, Settings, load_settings
from mom_pipeline.settings_file import write_values
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import extend_dictionaries

_WRITTEN = ("n_components", "estimator", "rows")


_DAYS = "Last days to learn from, three times.  [default: evaluation.horizon_days]"


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
    _show(chosen, period)
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


def _show(chosen: ChosenSettings, period: str) -> None:
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
