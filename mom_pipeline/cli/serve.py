"""`mom-pipeline serve`: the promoted model over HTTP; `ui`: Dagster's pages on this pipeline."""

import asyncio
import getpass
import ipaddress
import logging
import os
import re
import shlex
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.cli.main import TYPED
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.dagster_home import CODE_LOCATION, prepare_dagster_home
from mom_pipeline.serving.access import (
    METRICS,
    OPEN,
    VARIABLE,
    TokenGuard,
    Tokens,
)
from mom_pipeline.serving.champion import Champion
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.ui import server
from mom_pipeline.ui.guard import LoopbackGuard, TimedProtocol
from mom_pipeline.ui.programs import Programs
from mom_pipeline.ui.workers import Leaving, keep_workers, serve_as_worker

_SECONDS_FOR_OPEN_REQUESTS = 10
_PORT = click.IntRange(0, 65535)


def _trial(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, float]:
    """VERSION=10% as a version and a share."""
    if text is None:
        return "", 0.0
    match = re.fullmatch(r"([^=]+)=(\d+(?:\.\d+)?)%", text)
    if match is None or not 0 < float(match[2]) < 100:
        raise click.BadParameter(f"VERSION=SHARE% expected, such as VERSION=10%, found {text!r}")
    return match[1], float(match[2]) / 100


def _origins(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Origins as browsers send them: any other text would never be one."""
    for text in given:
        if not re.fullmatch(r"https?://[^/\s]+", text):
            raise click.BadParameter(f"an origin such as https://shop.example, found {text!r}")
    return given


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=_PORT, default=8000, show_default=True, help="0: a free one.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, help="Processes; one a core.")
@click.option(
    *("--cors-origin", "origins"),
    multiple=True,
    callback=_origins,
    help="Pages that may ask, by origin.",
)
@click.option("--proxy", "proxies", multiple=True, help="Address of a proxy to be trusted.")
@click.option("--open-metrics", is_flag=True, help="/metrics needs no token.")
@click.option("--ab", callback=_trial, metavar="VERSION=10%", help="Let a version answer some.")
@click.option("--systemd", is_flag=True, help="Print a unit that does this, and nothing else.")
@click.pass_context
def serve(ctx: click.Context, /, host: str, port: int, **how: Any) -> None:
    """Show people, items, components and reports as pages, and answer over HTTP.

    / is the explorer, /docs lists and tries the addresses, /metrics is for Prometheus, /health
    and /ready say whether questions are answered.

    A model that is promoted or rolled back meanwhile is taken up without a restart and without
    a lost request. If its files are damaged, the model before stays, and /health says so. On a
    loopback address only requests for this machine are answered; on any other, and behind a
    --proxy, only those with a token: that of MOM_SERVE_TOKEN, or one of `mom-pipeline token`.

    \b
    Examples:
      mom-pipeline serve --workers 2 --cors-origin https://shop.example
      mom-pipeline serve --ab 2024-03-27-0123456789ab=10%
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    if how["systemd"]:
        click.echo(_unit(ctx, settings), nl=False)
        return
    tokens = None
    if how["proxies"] or not _is_loopback(host):
        tokens = Tokens(settings, os.environ.get(VARIABLE, ""))
        tokens.require(host)
    _end_as_by_ctrl_c()
    champion, several = Champion(settings, _say), how["workers"] > 1
    if how["ab"][0] and how["ab"][0] == champion.registry.champion_version():
        raise click.UsageError(f"{how['ab'][0]} is the model in use; a trial is of another")
    if trial := champion.registry.try_out(*how["ab"]):
        _say(f"{trial.version} answers {trial.share:.0%} of the people; GET /shown compares.")
    with ExitStack() as stack:
        stack.enter_context(suppress(KeyboardInterrupt))  # a second Ctrl-C: uvicorn hands it on
        listener = stack.enter_context(_listen(host, port))
        stack.enter_context(one_blas_thread())
        if several:
            folder = stack.enter_context(scratch_folder(settings, "metrics"))
            # To be named before `serving.http` is imported, which imports prometheus_client.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        from mom_pipeline.serving.http import create_app

        app, actual_port = create_app(champion), listener.getsockname()[1]
        leaving = Leaving(_guarded(app, host, actual_port, how, tokens))
        champion.look()
        _say_address(champion, f"http://{f'[{host}]' if ':' in host else host}:{actual_port}")

        def answering() -> None:
            with champion, app.state.writer:
                _answer(champion, leaving, listener, several=several)

        if several:
            keep_workers(how["workers"], champion.look, answering)
        else:
            answering()
    click.echo("Stopped.")


def _answer(champion: Champion, app: Leaving, listener: socket.socket, *, several: bool) -> None:
    """Answer requests until a signal comes, as the only process or as one of several."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    made = server.uvicorn_server(
        app,
        access_log=False,
        server_header=False,
        http=TimedProtocol,
        ws="none",
        timeout_graceful_shutdown=_SECONDS_FOR_OPEN_REQUESTS,
        **({"loop": "asyncio", "backlog": 1} if several else {}),
    )
    if several:
        champion.loads = False
        serve_as_worker(made, app, listener)
    else:
        made.run(sockets=[listener])


def _guarded(
    app: ASGIApp, host: str, port: int, how: Mapping[str, Any], tokens: Tokens | None
) -> ASGIApp:
    """The application behind what refuses requests. tokens: None on this machine alone."""
    if tokens is None:
        app = LoopbackGuard(app, port, how["origins"])
    else:
        paths = (*OPEN, METRICS) if how["open_metrics"] else OPEN
        app = TokenGuard(app, tokens, how["origins"], paths)
        _say(
            f"{host} is open to other machines: requests need a token, that of {VARIABLE} or a "
            "named one; in a browser, add /?token=… to the address once."
        )
    if how["origins"]:
        app = CORSMiddleware(app, how["origins"], ["GET", "POST", "PUT"], ["*"])
    return server.behind_proxies(app, how["proxies"]) if how["proxies"] else app


def _say(message: str) -> None:
    click.echo(message, err=True)


def _say_address(champion: Champion, address: str) -> None:
    if champion.version() is None:
        # What is wrong with a promoted model was said when it was looked at.
        none = "No model is promoted yet; run `mom-pipeline update`. "
        then = "Questions are answered as soon as a model can be used."
        _say(then if champion.problem else none + then)
    click.echo(f"Open {address} (Ctrl-C stops it).")


def _unit(ctx: click.Context, settings: Settings) -> str:
    """A unit of systemd that runs this command with the options given."""
    typed = [word for word in ctx.meta[TYPED] if word != "--systemd"]
    words = [str(Path(sys.executable).with_name("mom-pipeline")), *typed]
    command = shlex.join(words).replace("%", "%%")
    unit = (files("mom_pipeline") / "deploy" / "mom-pipeline.service").read_text(encoding="utf-8")
    folder = settings.data_dir.resolve()
    return unit.format(data_dir=folder, command=command, user=getpass.getuser())


@click.command()
@click.argument("name", required=False)
@click.option("--withdraw", is_flag=True, help="It holds no longer, from now on.")
def token(name: str | None, withdraw: bool) -> None:
    """Make a token for `serve` and show it this once; without a NAME, list the names.

    \b
    Examples:
      mom-pipeline token shop
      mom-pipeline token shop --withdraw
    """  # noqa: D301 - \b tells click to keep the lines
    named = Tokens(load_settings())
    if name is None:
        click.echo("\n".join(sorted(named.hashes())) or "There is no token by name.")
    elif withdraw:
        named.withdraw(name)
        click.echo(f"The token {name!r} holds no longer.")
    else:
        click.echo(named.make(name))


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
def ui(port: int | None, daemon: bool) -> None:
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
        click.echo(f"Loading {CODE_LOCATION} ...", err=True)
        proxy, locations = server.start_webserver(programs, CODE_LOCATION)
        for location in locations:
            if error := location.get("message"):
                message = f"{CODE_LOCATION} cannot be loaded; the pages show why.\n{error}"
                click.secho(message, fg="red", err=True)
        # Not before: two processes that make the tables of the history at once damage them.
        if daemon:
            programs.start_daemon(CODE_LOCATION)
        address = f"http://127.0.0.1:{actual_port}"
        click.echo(f"Open {address} (Ctrl-C stops it).")
        click.echo(f"The graph, unfolded: {address}{server.whole_graph(locations)}")
        asyncio.run(server.serve(proxy, listener, programs))
    click.echo("Stopped.")
