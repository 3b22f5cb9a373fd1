"""The model itself: spectrum, weights and components."""

from matplotlib.figure import Figure

from mom_pipeline.pictures import bars
from mom_pipeline.report.data import Component, DayFacts
from mom_pipeline.report.html import (
    Html,
    joined,
    paragraphs,
    picture,
    pictures,
    section,
    table,
    tag,
)


def moments_section(facts: DayFacts) -> Html:
    """Eigenvalues of the second moment, and the weights of the classes."""
    K, spectrum = len(facts.components), facts.spectrum
    gap = spectrum[K - 1] / spectrum[0]
    weights = [component.weight for component in facts.components]
    model = facts.model
    return section(
        "moments",
        "Spectrum and weights",
        pictures(
            picture(
                bars(spectrum, title=f"Eigenvalues of M2; the first {K} are whitened",
                     x="number of the eigenvalue", y="eigenvalue, log scale", log=True),
                "Eigenvalues of the second moment, largest first",
            ),
            picture(
                bars(weights, title="π, the weights of the classes", x="component",
                     y="P[class], a probability"),
                "Weight of every component",
            ),
        ),
        paragraphs(
            f"Eigenvalue {K}, the last that is used, is {gap:.2g} of the first. "
            f"Σλ⁻² is {model['weight_sum']:.3f} (1 where the moments are exact), and the "
            "components leave "
            f"{model['residual']:.1%} of the tensor unexplained. "
            f"{model['negative_mass']:.1%} of the mass of the estimates was negative and removed."
        ),
    )  # fmt: skip


def components_section(facts: DayFacts) -> Html:
    """Every component with its items, and whether two halves of the users agree on it."""
    threshold = facts.settings.evaluation.min_agreement
    agreement = [component.agreement for component in facts.components]
    weak = sum(value < threshold for value in agreement)
    verdict = (
        f"Two halves of the users, each fitted for itself, agree on every component by "
        f"{threshold:g} or more."
        if not weak
        else f"On {weak} of {len(agreement)} components two halves of the users, each fitted for "
        f"itself, agree by less than {threshold:g}: these may be accidents of the sample, and "
        "are no ground to act on. Fewer components, or more days, make them firmer."
    )
    return section(
        "components",
        "Components",
        tag("p", verdict, class_="verdict"),
        pictures(
            picture(
                agreement_figure(facts),
                "Split-half agreement of every component",
            )
        ),
        table(
            "Components by number, with their most probable items",
            ["component", "π", "agreement", "drift", "items, with P[item | class]"],
            [_row(k, component, threshold) for k, component in enumerate(facts.components, 1)],
            class_="components",
        ),
        paragraphs(
            "Agreement: cosine between the two halves' estimates of the component; it speaks "
            "about chance, not about a bias that both halves share. Drift: total variation "
            "since the day before."
        ),
    )  # fmt: skip


def agreement_figure(facts: DayFacts) -> Figure:
    """One bar for every component, those below the threshold marked."""
    return bars(
        [component.agreement for component in facts.components],
        title="Agreement of two halves of the users",
        x="component",
        y="cosine, 0 to 1",
        below=facts.settings.evaluation.min_agreement,
    )


def _row(k: int, component: Component, threshold: float) -> tuple[Html | str | int, ...]:
    mark = tag("strong", " weak") if component.agreement < threshold else None
    items = joined(
        tag("span", name, tag("small", f" {probability:.3f}"), class_="item")
        for name, probability in component.top_items
    )
    return (
        k,
        f"{component.weight:.3f}",
        joined([f"{component.agreement:.2f}", mark]),
        "–" if component.drift is None else f"{component.drift:.4f}",
        items,
    )
