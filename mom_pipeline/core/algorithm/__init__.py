"""Algorithm 1 of the paper, a file per step."""
