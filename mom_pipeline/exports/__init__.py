"""What others read without us: lists and groups as their tables, a recommender as one file."""
