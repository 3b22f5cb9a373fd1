"""Recommendations from interaction logs by the method of moments."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mom_pipeline.defs.build import build_defs
    from mom_pipeline.serving.recommender import Recommender

__version__ = "0.1.0"
__all__ = ["Recommender", "__version__", "build_defs"]

_LAZY = {"Recommender": "mom_pipeline.serving.recommender", "build_defs": "mom_pipeline.defs.build"}


def __getattr__(name: str) -> Any:
    """Import on use, so that importing the package stays cheap."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
