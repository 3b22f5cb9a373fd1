"""From a history to a list: memberships, the parts of the score, the best items, and why."""
