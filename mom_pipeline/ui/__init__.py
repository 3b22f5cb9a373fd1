"""Dagster's pages for this pipeline: the guarded webserver and the daemon beside it."""

from mom_pipeline.core.errors import MomError


class PortTaken(MomError):
    """The requested port belongs to another program."""


class DaemonRunsAlready(MomError):
    """Another process runs the daemon of the same data folder."""


class DaemonStopped(MomError):
    """The daemon ended without being asked to."""
