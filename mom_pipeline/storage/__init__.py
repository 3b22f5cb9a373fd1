"""Log files, the DuckDB warehouse, artifacts on disk and dataset adapters."""
