"""Erasure of a person from every file below the data folder, so that nothing brings them back."""
