"""Forgetting a person: out of every place below the data folder, and not to come back."""
