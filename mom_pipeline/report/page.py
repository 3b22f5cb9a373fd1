"""The page of a day: its head, the figures to see first, and the sections in order."""

from importlib.resources import files

from mom_pipeline.report import dynamics, evidence, model, sections, theorem
from mom_pipeline.report.data import DayFacts
from mom_pipeline.report.html import Html, joined, tag

# Nothing may be fetched, and nothing may run: the page is complete in itself.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_CONTENTS = {
    "evaluation": "What the model foresaw",
    "comparison": "Beside other methods",
    "components": "Components",
    "moments": "Spectrum and weights",
    "drift": "Drift",
    "posteriors": "Users",
    "bounds": "Theorem 1",
    "data": "Data",
    "origin": "Settings",
}


def page(facts: DayFacts) -> Html:
    """The whole document."""
    title = f"Model of {facts.day}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("title", f"{title} – mom-pipeline"),
        tag("style", Html(_stylesheet())),
    )
    body = tag(
        "body",
        tag(
            "header",
            tag("p", "mom-pipeline · recommendations by the method of moments", class_="kicker"),
            tag("h1", title),
            _key_figures(facts),
            tag("nav", *(tag("a", text, href=f"#{anchor}") for anchor, text in _CONTENTS.items()),
                aria_label="Contents"),
        ),
        tag("main", *_sections(facts)),
        tag("footer", f"Data folder {facts.settings.data_dir.resolve().name}, "
                      f"seed {facts.settings.model.seed}."),
    )  # fmt: skip
    return joined([Html("<!DOCTYPE html>\n"), tag("html", head, body, lang="en"), Html("\n")])


def _sections(facts: DayFacts) -> list[Html]:
    return [
        evidence.evaluation_section(facts),
        evidence.comparison_section(facts),
        model.components_section(facts),
        model.moments_section(facts),
        dynamics.drift_section(facts),
        dynamics.posteriors_section(facts),
        theorem.bounds_section(facts),
        sections.deliveries_section(facts),
        sections.origin_section(facts),
    ]


def key_figures(facts: DayFacts) -> dict[str, str]:
    """What to see first: what it is -> its value."""
    result = evidence.shown_result(facts)
    mean = float(facts.model["mean_agreement"])
    lowest = float(facts.model["lowest_agreement"])
    figures = {
        "users": f"{facts.n_users:,}",
        "items": f"{facts.n_items:,}",
        "components": f"{len(facts.components)}",
        f"agreement of halves, mean; lowest {lowest:.2f}": f"{mean:.2f}",
        "largest drift since the day before": f"{facts.model['largest_drift']:.3f}",
    }
    if result is not None:
        figures = {result[1]: result[0], **figures}
    return figures


def _key_figures(facts: DayFacts) -> Html:
    return tag(
        "dl",
        *(
            tag("div", tag("dt", name), tag("dd", value))
            for name, value in key_figures(facts).items()
        ),
        class_="figures",
    )


def _stylesheet() -> str:
    return (files("mom_pipeline.report") / "page.css").read_text(encoding="utf-8")
