"""Errors of the user interface."""

from mom_pipeline.core.errors import MomError


class PortTaken(MomError):
    """The port that the user asked for belongs to another program."""


class DaemonRunsAlready(MomError):
    """Another process runs the daemon of the same data folder."""


class DaemonStopped(MomError):
    """The daemon ended although nobody asked it to."""
