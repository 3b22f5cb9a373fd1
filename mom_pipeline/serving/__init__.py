"""Models in use: versions that are promoted and rolled back, and what they answer."""

# Where `mom-pipeline serve` answers when it is told nothing else.
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000
