"""Recommenders side by side: the same split, candidates and metrics for all of them."""
