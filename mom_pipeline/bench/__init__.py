"""Measurements behind the figures in the README: each is one command that prints ratios."""
