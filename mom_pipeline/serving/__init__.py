"""Models in use: versions that are promoted and rolled back, and what they answer."""
