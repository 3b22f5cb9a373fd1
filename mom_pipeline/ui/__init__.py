"""Dagster's pages for this pipeline: the guarded webserver and the daemon beside it."""
