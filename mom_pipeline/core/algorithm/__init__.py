"""Steps 2 to 8 of the paper's Algorithm 1, a file each; `decompose.py` runs them in order."""
