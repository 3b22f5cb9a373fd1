"""Theorem 1 on the model of a day."""

from dataclasses import asdict

from mom_pipeline.report.data import DayFacts
from mom_pipeline.report.html import Html, paragraphs, section, table, tag

_BOUND_MEANINGS = {
    "mu_bound": "bound of the error of a column of O",
    "pi_bound": "bound of the error of a weight in pi",
    "n1": "users asked for, first premise",
    "n2": "users asked for, second premise",
    "n3": "users asked for, third premise",
    "n_users": "users found",
    "d1s": "mean of the items per user",
    "d2s": "mean of their squares",
    "d3s": "mean of their cubes",
    "sigma_1": "largest eigenvalue of M2",
    "sigma_k": "smallest eigenvalue that is used",
    "delta": "probability that the bounds may fail with",
}


def bounds_section(facts: DayFacts) -> Html:
    """Theorem 1 as numbers, with what it assumes and whether it says anything."""
    found = asdict(facts.bounds)
    rows = [(name, meaning, f"{found[name]:,.4g}") for name, meaning in _BOUND_MEANINGS.items()]
    return section(
        "bounds",
        "Theorem 1",
        tag("p", facts.bounds.in_words, class_="verdict"),
        table("The theorem on this model", ["", "meaning", "value"], rows, texts=2),
        paragraphs(
            "It assumes that every user belongs to one class and takes items independently given "
            "the class, that users are independent, that there are K classes with linearly "
            "independent columns of O, and that the second and third moments are estimated "
            "without bias (estimator `unbiased` on counts; this model: "
            f"`{facts.settings.model.estimator}`). The constants that the paper leaves open are "
            f"taken as {', '.join(f'{c:g}' for c in facts.bounds.constants)}."
        ),
        *(paragraphs(warning[:1].upper() + warning[1:] + ".") for warning in facts.bounds.warnings),
    )
