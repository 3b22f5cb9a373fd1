"""Log files: names, reading, ingestion exactly once, the ledger."""
