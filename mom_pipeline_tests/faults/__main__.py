"""`python -m mom_pipeline_tests.faults`: many faults, outside of the test suite."""

import tempfile
from pathlib import Path

import click

from mom_pipeline_tests.faults.fuzz import fuzz
from mom_pipeline_tests.faults.kills import kill_series, strike_points


@click.command()
@click.option("--kills", default=0, help="Kills of update, erase, promote and rollback.")
@click.option("--points", default=0.0, help="Minutes of writes, renames, fsyncs and commits.")
@click.option("--files", default=0, help="Log files with random damage.")
@click.option("--seed", default=0, show_default=True)
def main(kills: int, points: float, files: int, seed: int) -> None:
    """Break things as often as asked for, and print counts; exit code 1 when one did not hold.

    \b
    Example:
      python -m mom_pipeline_tests.faults --kills 200 --files 10000
    """  # noqa: D301 - \b tells click to keep the lines
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if files:
            fuzzed = fuzz(root / "fuzz", files, seed)
            click.echo(
                f"{files} files with damage: {fuzzed.taken} taken with {fuzzed.lines} lines, "
                f"{fuzzed.refused} refused {dict(fuzzed.reasons)}"
            )
            failures += fuzzed.failures
        if points:
            struck = strike_points(root / "points", 60 * points, seed, click.echo)
            click.echo(f"{struck.kills.total()} strikes {dict(struck.kills)}")
            failures += struck.failures
        if kills:
            killed = kill_series(root / "kills", kills, seed, click.echo)
            counts = ", ".join(f"{n} of {name}" for name, n in killed.kills.items())
            click.echo(f"{killed.kills.total()} kills ({counts}); {killed.too_late} came too late")
            failures += killed.failures
    click.echo(f"{len(failures)} did not hold")
    for failure in failures:
        click.echo(failure)
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
