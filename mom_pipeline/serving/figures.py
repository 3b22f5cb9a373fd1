"""Figures of how a model came about, kept beside it for the report and the explorer."""

from pydantic import BaseModel, ConfigDict

from mom_pipeline.core.evaluation.theorem1 import Bounds

# Days that a model remembers.
TREND_DAYS = 60


class _Figures(BaseModel):
    """Figures that do not change, without NaN and infinity."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class FitFigures(_Figures):
    """The fit of one day.

    full: computed from all users.  captured_share: of the second moment, by the basis.
    drift: (K,), total variation since the day before.  agreement: (K,), cosine of two halves of
    the users.  mean_agreement: weighted by pi.
    """

    day: str
    full: bool
    changed_users: int
    users: int
    captured_share: float
    drift: tuple[float, ...]
    agreement: tuple[float, ...]
    mean_agreement: float


class ModelFigures(_Figures):
    """The fit of a model.

    spectrum: eigenvalues of M2 inside the span, largest first.  weight_sum: sum of lambda^-2.
    bounds: None where Theorem 1 is about another model.  days: up to its own, which is the last.
    """

    spectrum: tuple[float, ...]
    residual: float
    weight_sum: float
    negative_mass: float
    bounds: Bounds | None
    days: tuple[FitFigures, ...]
