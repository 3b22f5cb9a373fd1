"""The assets, in files by topic."""
