"""What the commands that ask the promoted model share."""

import click

from mom_pipeline.serving.recommender import MAX_LIST, Recommender
from mom_pipeline.settings import load_settings

count_option = click.option(
    "-n", "n", type=click.IntRange(1, MAX_LIST), default=20, show_default=True, help="How many."
)


def promoted_model() -> Recommender:
    """The promoted model of the data folder, with its settings."""
    settings = load_settings()
    return Recommender.of(settings.data_dir, exclude_seen=settings.serving.exclude_seen)
