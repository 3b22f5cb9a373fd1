"""Errors of the method. Each says what was expected, what was found and what to do."""

from mom_pipeline.errors import InvalidSetting as InvalidSetting
from mom_pipeline.errors import MomError as MomError


class InvalidInteractions(MomError, ValueError):
    """The interaction matrix cannot be used as it is."""


class TooLittleData(InvalidInteractions):
    """The rows are sound, but do not suffice for a model yet."""


class RankTooLow(TooLittleData):
    """The second moment does not support even one component."""


class NotFitted(MomError, AttributeError):
    """The model was asked for a result before `fit`: it has no such attribute yet."""


class DamagedModel(MomError):
    """A stored model cannot be read back as it was written."""


class ModelOfOtherVersion(DamagedModel):
    """A model file is whole, and was written by another version of this package."""


class VisitFailed(MomError):
    """The rows of users could not be visited where they are."""
