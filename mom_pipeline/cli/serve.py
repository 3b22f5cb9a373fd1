"""`mom-pipeline serve`: the promoted model over HTTP."""

import errno
import ipaddress
import logging
import os
import signal
import socket

import click
import uvicorn
from starlette.types import ASGIApp

from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.serving.access import VARIABLE, TokenGuard, token_for
from mom_pipeline.serving.champion import Champion
from mom_pipeline.serving.http import create_app
from mom_pipeline.serving.recommender import list_rules
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline.ui import PortTaken
from mom_pipeline.ui.guard import NO_FRAMES, LoopbackGuard
from mom_pipeline.ui.slow_clients import TimedProtocol

_SECONDS_FOR_OPEN_REQUESTS = 10


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: a free one."
)
def serve(host: str, port: int) -> None:
    """Show people, items, components and reports as pages, and answer over HTTP.

    / is the explorer, /docs lists and tries the addresses, /metrics is for Prometheus.

    A model that is promoted or rolled back meanwhile is taken up without a restart and without
    a lost request. If its files are damaged, the model before stays, and /health says so. On a
    loopback address only requests for this machine are answered; on any other, only those with
    the token that the environment variable MOM_SERVE_TOKEN holds.
    """
    token = None if _is_loopback(host) else token_for(host, os.environ.get(VARIABLE))
    # A second Ctrl-C too: uvicorn hands the signal on when it has ended.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    settings = load_settings()
    try:
        with (
            _listen(host, port) as listener,
            Champion(
                ModelRegistry(settings.models_dir),
                list_rules(settings),
                on_change=lambda message: click.echo(message, err=True),
            ) as champion,
            one_blas_thread(),
        ):
            app = create_app(champion, reports_dir=settings.reports_dir)
            _run(app, champion, listener, host, token)
    except KeyboardInterrupt:
        pass
    click.echo("Stopped.")


def _run(
    app: ASGIApp, champion: Champion, listener: socket.socket, host: str, token: str | None
) -> None:
    port = listener.getsockname()[1]
    if token is None:
        app = LoopbackGuard(app, port)
    else:
        app = TokenGuard(app, token)
        click.echo(
            f"{host} is open to other machines: requests need the token in {VARIABLE}; in a "
            "browser, add /?token=… to the address once.",
            err=True,
        )
    if champion.version() is None:
        # What is wrong with a promoted model was said when it was looked at.
        none = "" if champion.problem else "No model is promoted yet; run `mom-pipeline update`. "
        click.echo(f"{none}Questions are answered as soon as a model can be used.", err=True)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    configuration = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        # Behind no proxy, so that no header may speak for the client.
        proxy_headers=False,
        server_header=False,
        headers=[NO_FRAMES],
        http=TimedProtocol,
        ws="none",
        timeout_graceful_shutdown=_SECONDS_FOR_OPEN_REQUESTS,
    )
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Open http://{shown}:{port} (Ctrl-C stops it).")
    uvicorn.Server(configuration).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; what arrives before the server runs waits in its queue."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise PortTaken(
                f"port {port} on {host} must be free, but it is taken or not permitted; "
                "choose another --port, or 0 for a free one"
            ) from error
        raise click.BadParameter(
            f"cannot listen on {host!r}: {error}", param_hint="--host"
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
