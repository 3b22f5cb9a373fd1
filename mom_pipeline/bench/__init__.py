"""Benchmarks: one command each, which prints ratios against a peer; README.md has the results."""
