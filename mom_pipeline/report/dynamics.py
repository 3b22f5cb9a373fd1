"""What moves: the model from day to day, and the users between its classes."""

import numpy as np

from mom_pipeline.pictures import curves, histogram
from mom_pipeline.report.data import DayFacts
from mom_pipeline.report.html import Html, paragraphs, picture, pictures, section

_SHOWN_DAYS = 60


def drift_section(facts: DayFacts) -> Html:
    """How the model moved from day to day, and how firm it was."""
    days = facts.history[-_SHOWN_DAYS:]
    labels = [f"{entry.day:%m-%d}" for entry in days]
    x = f"day (n = {len(days)})"
    full = [str(entry.day) for entry in days if entry.full]
    held = [entry.captured for entry in days if not entry.full]
    basis = f"; the basis held {min(held):.1%} of the second moment or more" if held else ""
    return section(
        "drift",
        "Drift over the days",
        pictures(
            picture(
                curves(labels, {"largest drift": [e.largest_drift for e in days]},
                       title="Largest drift of a component since the day before", x_label=x,
                       y="total variation, 0 to 1"),
                "Largest drift of a component by day",
            ),
            picture(
                curves(labels, {"mean, weighted by π": [e.mean_agreement for e in days],
                                "lowest": [e.lowest_agreement for e in days]},
                       title="Agreement of two halves of the users", x_label=x,
                       y="cosine, 0 to 1"),
                "Split-half agreement by day",
            ),
            picture(
                curves(labels, {"changed": [e.changed_users for e in days],
                                "all": [e.users for e in days]},
                       title="Users that a day visited for its moments", x_label=x, y="users"),
                "Changed users by day",
            ),
        ),
        paragraphs(
            f"Computed from all users: {', '.join(full) or 'none of these days'}. The others are "
            f"yesterday's sums with the changed users exchanged{basis}."
        ),
    )  # fmt: skip


def posteriors_section(facts: DayFacts) -> Html:
    """How sure the model is about its users."""
    if facts.entropy is None or len(facts.entropy) == 0:
        text = f"There are no posteriors of {facts.day}; materialize user_personalization."
        return section("posteriors", "Users and their classes", paragraphs(text))
    largest = np.log2(max(len(facts.components), 1))
    median = float(np.median(facts.entropy))
    return section(
        "posteriors",
        "Users and their classes",
        pictures(
            picture(
                histogram(facts.entropy, title="Entropy of P[class | user]", x="entropy, bits"),
                "Histogram of the entropy of the users' posteriors",
            )
        ),
        paragraphs(
            f"The median user's posterior has an entropy of {median:.2f} bits, as if spread "
            f"evenly over {2**median:.1f} classes; {largest:.2f} bits is the most that "
            f"{len(facts.components)} classes can have. Rule: "
            f"{facts.settings.model.personalization}."
        ),
    )
