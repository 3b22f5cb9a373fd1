"""Recommendations from interaction logs by the method of moments."""

__version__ = "0.1.0"
