"""Errors of a comparison."""

from mom_pipeline.core.errors import MomError


class ComparisonError(MomError):
    """The data or the choice of methods leave nothing to compare."""


class DamagedComparison(MomError):
    """A stored comparison cannot be read back as it was written."""
