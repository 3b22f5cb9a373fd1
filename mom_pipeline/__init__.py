"""Recommendations from interaction logs by the method of moments."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mom_pipeline.serving.recommender import Recommender

__version__ = "0.1.0"
__all__ = ["Recommender", "__version__"]


def __getattr__(name: str) -> Any:
    """Import `Recommender` on use, so that importing the package stays cheap."""
    if name == "Recommender":
        from mom_pipeline.serving.recommender import Recommender

        return Recommender
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
