"""What is known of the groups of a model: names, sizes, days, who belongs, what changed."""
