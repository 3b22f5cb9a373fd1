"""One self-contained HTML page about the model of a day."""
