"""Groups of users: the refined model, how many the data support, segments, sums that are shared."""
