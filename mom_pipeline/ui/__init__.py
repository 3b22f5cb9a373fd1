"""Dagster's pages for this pipeline: a guard before `dagster-webserver`, and the daemon."""
