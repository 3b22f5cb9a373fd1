"""Choosing K and the other settings of the model on the last days of the logs."""
