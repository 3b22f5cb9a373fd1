"""Arrays on disk, by asset and day."""
