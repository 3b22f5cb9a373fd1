"""Versioned folders on disk: the arrays of each asset and day; also scratch folders and timings."""
