"""Dagster's webserver behind the guard, on the loopback interface only.

The one module that imports private parts of Dagster, which is pinned to one version for it. The
public way to serve its pages is the program `dagster-webserver`, which opens a port of its own:
the guard must be in the same process, in front of the application, and that is made from a
`WorkspaceProcessContext`.
"""

import errno
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import uvicorn
from dagster import DagsterInstance, TimeWindowPartitionsDefinition
from dagster._cli.workspace.cli_target import workspace_opts_to_load_target
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster_graphql.schema import create_schema
from dagster_shared.cli import WorkspaceOpts
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.version import __version__ as webserver_version

from mom_pipeline.ui import PortTaken
from mom_pipeline.ui.dagster_requests import DagsterRequests
from mom_pipeline.ui.guard import LoopbackGuard

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 3000
_POLL_MILLISECONDS = 2000
_SECONDS_FOR_OPEN_REQUESTS = 3
_TICKS_PER_SECOND = 10
# The name of a group when groups of all code locations share one graph, the pages' default.
_GROUP = "global@global:{name}"


def listen(port: int | None) -> socket.socket:
    """Return a listening socket on loopback: the given port, the default one, or a free one.

    Raises PortTaken when a port was given and another program has it.
    """
    try:
        return socket.create_server((LOOPBACK, DEFAULT_PORT if port is None else port))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        if port is None:
            return socket.create_server((LOOPBACK, 0))
        raise PortTaken(
            f"port {port} on {LOOPBACK} must be free, but it is taken or not permitted; "
            "choose another --port, or leave it out for a free one"
        ) from error


_present = TimeWindowPartitionsDefinition._get_current_timestamp


def _present_or_end(partitions: TimeWindowPartitionsDefinition) -> float:
    """The present, but not after the end of the partitions.

    Where Dagster asks for the newest partitions it forgets that there may be an end, and the Plots
    of an asset would show the days up to today, of logs that ended years ago.
    """
    end, present = partitions.end_timestamp, _present(partitions)
    return present if end is None else min(present, end)


@contextmanager
def loaded_workspace(instance: DagsterInstance, module: str) -> Iterator[WorkspaceProcessContext]:
    """Yield the code location of a module, loaded in a process of its own."""
    # The pages rebuild every definition from its description, so there is no other place.
    TimeWindowPartitionsDefinition._get_current_timestamp = _present_or_end  # type: ignore[assignment, method-assign]
    target = workspace_opts_to_load_target(WorkspaceOpts(module_name=[module]))
    with WorkspaceProcessContext(
        instance, target, version=webserver_version, code_server_log_level="WARNING"
    ) as workspace:
        yield workspace


def loading_errors(workspace: WorkspaceProcessContext) -> list[str]:
    """Return Dagster's messages about code that could not be loaded."""
    context = workspace.create_request_context()
    return [error.to_string() for error in context.code_location_errors()]


def group_names(workspace: WorkspaceProcessContext) -> list[str]:
    """Return the groups of all assets that were loaded, in order."""
    nodes = workspace.create_request_context().asset_graph.asset_nodes
    return sorted({node.group_name for node in nodes})


def expanded_graph(groups: Iterable[str]) -> str:
    """Return the path of the whole graph with these groups expanded; by default none is."""
    expanded = ",".join(_GROUP.format(name=name) for name in groups)
    return f"/asset-groups?{urlencode({'expanded': expanded})}"


def serve(
    workspace: WorkspaceProcessContext,
    listener: socket.socket,
    on_ready: Callable[[], None],
    every_second: Callable[[], None],
) -> None:
    """Serve until a signal comes; an error of `every_second` ends the server and is raised."""
    app = create_app_from_workspace_process_context(
        workspace, live_data_poll_rate=_POLL_MILLISECONDS
    )
    checked = DagsterRequests(app, create_schema().graphql_schema, workspace.instance.has_run)
    configuration = uvicorn.Config(
        LoopbackGuard(checked, port=listener.getsockname()[1]),
        log_level="warning",
        # Behind no proxy, so that no header may speak for the client.
        proxy_headers=False,
        timeout_graceful_shutdown=_SECONDS_FOR_OPEN_REQUESTS,
    )
    _Server(configuration, on_ready, every_second).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Uvicorn's server with two callbacks: once when it answers, and every second."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        every_second: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._every_second = every_second

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SECOND == 0:
            self._every_second()
        return await super().on_tick(counter)
