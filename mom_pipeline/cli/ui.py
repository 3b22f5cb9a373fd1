"""`mom-pipeline ui`: Dagster's pages on this pipeline."""

import asyncio
import os
import signal
from contextlib import suppress

import click

from mom_pipeline.dagster_home import CODE_LOCATION, prepare_dagster_home
from mom_pipeline.settings import load_settings


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port on 127.0.0.1; 0 takes a free one. [default: 3000, or a free one if it is taken]",
)
@click.option(
    "--daemon/--no-daemon",
    default=True,
    help="Without the daemon, the pages show everything but start nothing.",
)
@click.option("--module", default=CODE_LOCATION, hidden=True, help="Module of the definitions.")
def ui(port: int | None, daemon: bool, module: str) -> None:
    """Serve Dagster's pages: the graph, its days, runs, schedules and sensors.

    The pages answer on this machine only, and refuse requests that other web pages send. The
    history of runs is in `dagster_home` below the data folder. Ctrl-C stops the pages and the
    daemon; a run that is under way finishes by itself.

    \b
    Examples:
      mom-pipeline ui
      mom-pipeline ui --port 0 --no-daemon
    """  # noqa: D301 - \b tells click to keep the lines
    # Like Ctrl-C, these unwind the blocks below, which stop Dagster's programs.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    with suppress(KeyboardInterrupt):  # the server may have taken the signal itself
        _run(port, daemon, module)
    click.echo("Stopped.")


def _run(port: int | None, with_daemon: bool, module: str) -> None:
    from mom_pipeline.ui import server
    from mom_pipeline.ui.programs import Programs

    settings = load_settings()
    home = prepare_dagster_home(settings)
    os.environ["MOM_DATA_DIR"] = str(settings.data_dir.resolve())
    with server.listen(port) as listener, Programs(home) as programs:
        actual_port = listener.getsockname()[1]
        if port is None and actual_port != server.DEFAULT_PORT:
            click.echo(f"Port {server.DEFAULT_PORT} is taken; using {actual_port}.", err=True)
        click.echo(f"Loading {module} ...", err=True)
        proxy, locations = server.start_webserver(programs, module)
        for location in locations:
            if error := location.get("message"):
                message = f"{module} cannot be loaded; the pages show why.\n{error}"
                click.secho(message, fg="red", err=True)
        # Not before: two processes that make the tables of the history at once damage them.
        if with_daemon:
            programs.start_daemon(module)
        address = f"http://127.0.0.1:{actual_port}"
        click.echo(f"Open {address} (Ctrl-C stops it).")
        click.echo(f"The graph, unfolded: {address}{server.whole_graph(locations)}")
        asyncio.run(server.serve(proxy, listener, programs))
