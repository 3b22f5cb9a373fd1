"""`mom-pipeline serve`: the promoted model over HTTP; `ui`: Dagster's pages on this pipeline."""

import asyncio
import ipaddress
import logging
import os
import signal
import socket
from contextlib import suppress

import click
from starlette.types import ASGIApp

from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.dagster_home import CODE_LOCATION, prepare_dagster_home
from mom_pipeline.serving.access import VARIABLE, TokenGuard, token_for
from mom_pipeline.serving.champion import Champion
from mom_pipeline.serving.http import create_app
from mom_pipeline.serving.recommender import list_rules
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline.ui import server
from mom_pipeline.ui.guard import LoopbackGuard, TimedProtocol
from mom_pipeline.ui.programs import Programs

_SECONDS_FOR_OPEN_REQUESTS = 10
_PORT = click.IntRange(0, 65535)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=_PORT, default=8000, show_default=True, help="0: a free one.")
def serve(host: str, port: int) -> None:
    """Show people, items, components and reports as pages, and answer over HTTP.

    / is the explorer, /docs lists and tries the addresses, /metrics is for Prometheus.

    A model that is promoted or rolled back meanwhile is taken up without a restart and without
    a lost request. If its files are damaged, the model before stays, and /health says so. On a
    loopback address only requests for this machine are answered; on any other, only those with
    the token that the environment variable MOM_SERVE_TOKEN holds.
    """
    token = None if _is_loopback(host) else token_for(host, os.environ.get(VARIABLE))
    _end_as_by_ctrl_c()
    settings = load_settings()
    registry, rules = ModelRegistry(settings.models_dir), list_rules(settings)
    with (
        suppress(KeyboardInterrupt),  # a second Ctrl-C too: uvicorn hands it on when it has ended
        _listen(host, port) as listener,
        Champion(registry, rules, on_change=lambda said: click.echo(said, err=True)) as champion,
        one_blas_thread(),
    ):
        app: ASGIApp = create_app(champion, reports_dir=settings.reports_dir)
        actual_port = listener.getsockname()[1]
        if token is None:
            app = LoopbackGuard(app, actual_port)
        else:
            app = TokenGuard(app, token)
            click.echo(
                f"{host} is open to other machines: requests need the token in {VARIABLE}; in a "
                "browser, add /?token=… to the address once.",
                err=True,
            )
        if champion.version() is None:
            # What is wrong with a promoted model was said when it was looked at.
            none = "No model is promoted yet; run `mom-pipeline update`. "
            then = "Questions are answered as soon as a model can be used."
            click.echo(then if champion.problem else none + then, err=True)
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Open http://{shown}:{actual_port} (Ctrl-C stops it).")
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        server.uvicorn_server(
            app,
            access_log=False,
            server_header=False,
            http=TimedProtocol,
            ws="none",
            timeout_graceful_shutdown=_SECONDS_FOR_OPEN_REQUESTS,
        ).run(sockets=[listener])
    click.echo("Stopped.")


def _listen(host: str, port: int) -> socket.socket:
    try:
        return server.listen(port, host)
    except OSError as error:
        said = f"cannot listen on {host!r}: {error}"
        raise click.BadParameter(said, param_hint="--host") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _end_as_by_ctrl_c() -> None:
    """Let these signals unwind all blocks, which stop what was started in them."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)


@click.command()
@click.option("--port", type=_PORT, help="0: a free one.  [default: 3000 if it is free]")
@click.option("--daemon/--no-daemon", default=True, help="Without it, the pages start nothing.")
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
    _end_as_by_ctrl_c()
    settings = load_settings()
    home = prepare_dagster_home(settings)
    os.environ["MOM_DATA_DIR"] = str(settings.data_dir.resolve())
    with (
        suppress(KeyboardInterrupt),  # the server may have taken the signal itself
        server.listen(port) as listener,
        Programs(home) as programs,
    ):
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
        if daemon:
            programs.start_daemon(module)
        address = f"http://127.0.0.1:{actual_port}"
        click.echo(f"Open {address} (Ctrl-C stops it).")
        click.echo(f"The graph, unfolded: {address}{server.whole_graph(locations)}")
        asyncio.run(server.serve(proxy, listener, programs))
    click.echo("Stopped.")
