"""Dagster: assets, checks, partitions, resources, jobs, schedules and sensors. No arithmetic."""

import warnings

import dagster as dg

# Dagster is pinned to one version, so what is in beta there cannot change under this code.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
