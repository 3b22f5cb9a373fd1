"""Moments: sums over users, and the passes that add them up."""
