"""`python -m mom_pipeline_tests.faults`: many faults, outside of the test suite."""

import tempfile
from pathlib import Path

import click

from mom_pipeline_tests.faults.fuzz import fuzz
from mom_pipeline_tests.faults.guards import GUARDS, remove_guards
from mom_pipeline_tests.faults.kills import kill_series
from mom_pipeline_tests.faults.writes import concurrent_writes


@click.command()
@click.option("--kills", default=0, help="Kills of update, erase, promote and rollback.")
@click.option("--writes", default=0, help="Writes of one artifact by four processes at once.")
@click.option("--files", default=0, help="Log files with random damage.")
@click.option("--guards", is_flag=True, help="Take out every guard, one at a time.")
@click.option("--seed", default=0, show_default=True)
def main(kills: int, writes: int, files: int, guards: bool, seed: int) -> None:
    """Break things as often as asked for, and print counts; exit code 1 when one did not hold.

    \b
    Example:
      python -m mom_pipeline_tests.faults --kills 200 --writes 500 --files 10000 --guards
    """  # noqa: D301 - \b tells click to keep the lines
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if writes:
            written = concurrent_writes(root / "writes", writes)
            click.echo(f"{written.writes} of {writes} writes at once, {written.reads} reads")
            failures += written.failures
        if files:
            fuzzed = fuzz(root / "fuzz", files, seed)
            click.echo(
                f"{files} files with damage: {fuzzed.taken} taken with {fuzzed.lines} lines, "
                f"{fuzzed.refused} refused {dict(fuzzed.reasons)}"
            )
            failures += fuzzed.failures
        if guards:
            unnoticed = remove_guards(root / "guards", click.echo)
            click.echo(f"{len(GUARDS) - len(unnoticed)} of {len(GUARDS)} guards held by a test")
            failures += unnoticed
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
