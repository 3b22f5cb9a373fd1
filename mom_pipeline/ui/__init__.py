"""Dagster's pages for this pipeline: a guard before `dagster-webserver`, and the daemon."""

from mom_pipeline.core.errors import MomError


class PortTaken(MomError):
    """The requested port belongs to another program."""


class ProgramMissing(MomError):
    """A program of Dagster ended without being asked to, or must not be started twice."""
