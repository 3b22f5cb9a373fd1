"""Adapters that turn published datasets, and files of one's own, into daily log files."""
