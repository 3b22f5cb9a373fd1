"""`mom-pipeline tune`: K and the other settings of the model, chosen on the last days."""

import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from mom_pipeline.cli.run import ingest_new
from mom_pipeline.cli.terminal import json_option, print_json, print_table, step_progress
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.files import write_bytes
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.pictures.charts import curves
from mom_pipeline.pictures.svg import svg
from mom_pipeline.pipeline.choice import weights_of
from mom_pipeline.settings import SETTINGS_FILE, RankingSettings, Settings, load_settings
from mom_pipeline.settings_file import write_values
from mom_pipeline.tuning.sweep import Progress, Sweep, run_sweep
from mom_pipeline.tuning.validation import Trial, ValidationDays
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.dictionaries import extend_dictionaries

_SHOWN = 12


def _numbers(ctx: click.Context, param: click.Parameter, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise click.BadParameter(f"must be numbers like 8,16,32: {error}") from error
    if any(k < 1 for k in numbers):
        raise click.BadParameter(f"must be at least 1 each, found {text!r}")
    return numbers


@click.command()
@click.option(
    "--days",
    type=click.IntRange(min=1),
    help="Last days to validate on.  [default: evaluation.horizon_days]",
)
@click.option(
    "--components",
    default="",
    callback=_numbers,
    help="The K to try, comma-separated.  [default: powers of two up to sqrt(users)]",
)
@click.option("write", "--write", is_flag=True, help="Put the choice into the settings file.")
@click.option(
    "--figure",
    type=click.Path(path_type=Path, dir_okay=False),
    help="SVG file to draw to.  [default: tuning.svg in `reports`]",
)
@json_option
def tune(
    days: int | None, components: list[int], write: bool, figure: Path | None, as_json: bool
) -> None:
    """Try K, estimators, rules of personalization and rankings on the last days of the logs.

    Each is fitted to the days before and evaluated on what at most 8,000 users took on the last
    days. The best by MAP@20 is chosen if its gain over the present settings exceeds the
    standard error; because it was the best of many, expect a little less of it later on.
    """
    settings = load_settings()
    ingest_new(settings)
    with step_progress("reading") as progress:
        days = days or settings.evaluation.horizon_days
        sweep, period = _run(settings, days, components, progress)
    path = figure or settings.reports_dir / "tuning.svg"
    write_bytes(path, _picture(sweep))
    changes = _changes(settings, sweep.choice)
    written = write and bool(changes)
    if written:
        write_values(settings.data_dir / SETTINGS_FILE, changes)
    if as_json:
        print_json(
            {
                "period": period,
                "users": sweep.n_users,
                "popularity_map": sweep.popularity,
                "trials": [_values(trial) for trial in sweep.trials],
                "choice": _values(sweep.choice),
                "changes": changes,
                "written": written,
                "model": asdict(sweep.choice.model),
                "skipped": list(sweep.skipped),
            }
        )
        return
    _show(sweep, period)
    click.echo(f"Picture: {path}")
    _show_changes(settings, changes, written=written)


def _run(
    settings: Settings, days: int, components: list[int], progress: Progress
) -> tuple[Sweep, str]:
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
    # What no key of the file can hold stays as it is.
    written = {field.name for field in fields(RankingSettings)}
    sweep = run_sweep(
        ValidationDays.from_warehouse(warehouse, until, delivered[-1]),
        settings.model,
        weights_of(settings),
        wanted=components,
        fixed={f"ranking.{f.name}" for f in fields(RankingWeights) if f.name not in written},
        progress=progress,
    )
    return sweep, f"learnt up to {until}, evaluated on the days up to {delivered[-1]}"


def _changes(settings: Settings, choice: Trial) -> dict[str, Any]:
    """What differs from the settings as they are, of what has a key there."""
    changes = {}
    for dotted, value in choice.settings().items():
        section, key = dotted.split(".")
        if getattr(getattr(settings, section), key, value) != value:
            changes[dotted] = value
    return changes


def _picture(sweep: Sweep) -> bytes:
    """MAP over K: the best rule of each estimator."""
    groups: dict[str, list[Trial]] = {}
    for trial in sweep.trials:
        by_components = trial.ranking_weights is None
        name = f"{trial.model.estimator}, best rule" if by_components else "three moments"
        groups.setdefault(name, []).append(trial)
    ks = sorted({t.model.n_components for t in sweep.trials if t.ranking_weights is None})
    series = {name: _best_by_size(trials, ks) for name, trials in groups.items()}
    series["popularity"] = [sweep.popularity] * len(ks)
    title, y = "MAP@20 on the validation days", f"MAP@20 (n = {sweep.n_users:,} users)"
    return svg(curves(ks, series, title=title, x_label="K, components", y=y))


def _best_by_size(trials: Sequence[Trial], ks: Sequence[int]) -> list[float]:
    """The best MAP for each K; NaN where it was not tried."""
    return [
        max((t.map for t in trials if t.model.n_components == k), default=float("nan")) for k in ks
    ]


def _values(trial: Trial) -> dict[str, Any]:
    return {**trial.settings(), "map": trial.map, "recall": trial.recall}


def _show(sweep: Sweep, period: str) -> None:
    ordered = sorted(sweep.trials, key=lambda trial: -trial.map)
    shown = ordered[:_SHOWN]
    if sweep.present is not None and sweep.present not in shown:
        shown.append(sweep.present)
    columns = ["K", "estimator", "rows", "rule", "ranking", "MAP", "recall", "gain", ""]
    title = f"{len(shown)} of {len(ordered)} settings; {sweep.n_users:,} users, {period}"
    lines = [_line(sweep, trial) for trial in shown]
    print_table(title, columns, lines, numbers=("MAP", "recall", "gain"))
    click.echo(f"Popularity: MAP {sweep.popularity:.4f}.")
    for reason in sweep.skipped:
        click.echo(f"Not tried: {reason}")


def _line(sweep: Sweep, trial: Trial) -> tuple[Any, ...]:
    gain = "–"
    if sweep.present is not None and trial is not sweep.present:
        gain = "{:+.4f} ± {:.4f}".format(*trial.gain_over(sweep.present))
    marks = [("chosen", trial is sweep.choice), ("present", trial is sweep.present)]
    model = trial.model
    return (
        *(model.n_components, model.estimator, model.rows, model.personalization, model.ranking),
        *(f"{trial.map:.4f}", f"{trial.recall:.4f}", gain),
        ", ".join(word for word, holds in marks if holds),
    )


def _show_changes(settings: Settings, changes: dict[str, Any], *, written: bool) -> None:
    path = settings.data_dir / SETTINGS_FILE
    if not changes:
        click.echo("Nothing is clearly better than the present settings; they stay.")
        return
    click.echo(f"Written to {path}:" if written else f"`--write` would put into {path}:")
    for dotted, value in changes.items():
        click.echo(f"  {dotted} = {value}")
        variable = f"MOM_{dotted.upper().replace('.', '__')}"
        if variable in os.environ:
            click.echo(f"  (the environment variable {variable} overrides it)")
    if written:
        click.echo("`mom-pipeline update` computes the days with it.")
