"""Links into Dagster's pages."""

from collections.abc import Iterable
from urllib.parse import urlencode

from dagster._core.workspace.context import WorkspaceProcessContext

# How the pages name a group when groups of all code locations share one graph, their default.
_GROUP = "global@global:{name}"


def unfolded_graph(groups: Iterable[str]) -> str:
    """The path of the whole graph with these groups unfolded; the page itself folds them."""
    expanded = ",".join(_GROUP.format(name=name) for name in groups)
    return f"/asset-groups?{urlencode({'expanded': expanded})}"


def group_names(workspace: WorkspaceProcessContext) -> list[str]:
    """The groups of all assets that were loaded, in order."""
    nodes = workspace.create_request_context().asset_graph.asset_nodes
    return sorted({node.group_name for node in nodes})
