"""How good the lists are: beside other methods, and day by day beside popularity."""

from collections.abc import Mapping, Sequence

from mom_pipeline.comparison import tables
from mom_pipeline.comparison.figures import figure_2_panels
from mom_pipeline.comparison.results import Comparison
from mom_pipeline.pictures import curves, xy_curves
from mom_pipeline.report.data import DayFacts
from mom_pipeline.report.html import Html, paragraphs, picture, pictures, section, table
from mom_pipeline.warehouse.evaluations import MetricsRow

SHOWN_CUTOFF = 20
_SHOWN_DAYS = 60
_METRICS = {"Precision": "precision", "Recall": "recall", "MAP": "map", "nDCG": "ndcg"}


def comparison_section(facts: DayFacts) -> Html:
    """The newest comparison up to the day, or how to make one."""
    found = facts.comparison
    if found is None:
        hint = paragraphs(
            f"There is no comparison up to {facts.day} yet. `mom-pipeline compare --train-until "
            "YYYY-MM-DD` makes one: every method learns from the days up to that day, and is "
            "asked about the days after it. The job `comparison` does so each Sunday."
        )
        return section("comparison", "Beside other methods", hint)
    metrics, costs = tables.metrics_table(found), tables.cost_table(found)
    description = tables.description_table(found)
    precision_recall, map_at = figure_2_panels(found)
    return section(
        "comparison",
        "Beside other methods",
        table(metrics.title, metrics.columns, metrics.rows),
        pictures(
            picture(precision_recall, "Precision against recall, one line for each method"),
            picture(map_at, "MAP at every cut-off, one line for each method"),
        ),
        paragraphs(*tables.remarks(found), _made(found)),
        table(description.title, description.columns, description.rows, texts=2),
        table(costs.title, costs.columns, costs.rows),
    )


def _made(found: Comparison) -> str:
    return (
        "Δ is the mean difference per user to the reference, with its paired bootstrap interval "
        "of 95 %: where it holds 0, the difference may be chance. "
        f"Made {found.created or 'at an unknown time'} on {found.machine or 'an unknown machine'}, "
        f"seed {found.seed}."
    )


def evaluation_section(facts: DayFacts) -> Html:
    """The model of some days ago on what was delivered since, beside popularity."""
    title = "What the model foresaw"
    if not facts.metrics:
        horizon = facts.settings.evaluation.horizon_days
        return section(
            "evaluation",
            title,
            paragraphs(
                f"Nothing is evaluated up to {facts.day}: the first model is scored on what users "
                f"take in the {horizon} days after it."
            ),
        )
    newest = [row for row in facts.metrics if row.day == facts.metrics[-1].day]
    rankings = _in_order(newest)
    by_ranking = {name: [row for row in newest if row.ranking == name] for name in rankings}
    n = f"n = {newest[0].users:,} users"
    cutoffs = [row.cutoff for row in by_ranking[rankings[0]]]
    curve = xy_curves(
        {name: ([r.recall for r in rows], [r.precision for r in rows])
         for name, rows in by_ranking.items()},
        title="Precision and recall at every cut-off", x=f"mean recall ({n})",
        y=f"mean precision ({n})",
    )  # fmt: skip
    maps = curves(
        cutoffs, {name: [r.map for r in rows] for name, rows in by_ranking.items()},
        title="MAP at every cut-off", x_label="cut-off, items in the list", y=f"MAP ({n})",
    )  # fmt: skip
    return section(
        "evaluation",
        title,
        paragraphs(
            f"The model of {newest[0].model_day} on what {newest[0].users:,} users took that was "
            f"new to them, up to {newest[0].day}."
        ),
        pictures(
            picture(curve, "Precision against recall, model and popularity"),
            picture(maps, "MAP at every cut-off, model and popularity"),
            _trend(facts.metrics, rankings),
        ),
        _metrics_table(by_ranking),
    )  # fmt: skip


def _metrics_table(by_ranking: Mapping[str, Sequence[MetricsRow]]) -> Html:
    """One line for each cut-off; the rankings side by side under every metric."""
    columns = [f"{metric}, {name}" for metric in _METRICS for name in by_ranking]
    rows = [
        (at[0].cutoff, *(f"{getattr(row, key):.4f}" for key in _METRICS.values() for row in at))
        for at in zip(*by_ranking.values(), strict=True)
    ]
    n_users = next(iter(by_ranking.values()))[0].users
    return table(f"Means over {n_users:,} users", ["cut‑off", *columns], rows, texts=0)


def _trend(rows: Sequence[MetricsRow], rankings: Sequence[str]) -> Html:
    """Recall at the cut-off nearest to 20, of the newest days."""
    k = nearest_cutoff(rows)
    days = sorted({row.day for row in rows})[-_SHOWN_DAYS:]
    known = {(row.ranking, row.day): row.recall for row in rows if row.cutoff == k}
    series = {name: [known.get((name, day), float("nan")) for day in days] for name in rankings}
    figure = curves(
        [f"{day:%m-%d}" for day in days], series, title=f"Recall@{k} by day",
        x_label=f"last day of the test (n = {len(days)})", y=f"mean recall@{k}",
    )  # fmt: skip
    return picture(figure, f"Recall at {k} over the days, model and popularity")


def nearest_cutoff(rows: Sequence[MetricsRow]) -> int:
    """Return the cut-off nearest to 20."""
    return min({row.cutoff for row in rows}, key=lambda k: (abs(k - SHOWN_CUTOFF), k))


def _in_order(rows: Sequence[MetricsRow]) -> list[str]:
    """Return the rankings, the model's before popularity."""
    names = dict.fromkeys(row.ranking for row in rows)
    return sorted(names, key=lambda name: name == "popularity")


def shown_result(facts: DayFacts) -> tuple[str, str] | None:
    """Return the main figure of the newest evaluation, and what to read it against."""
    if not facts.metrics:
        return None
    newest, k = facts.metrics[-1].day, nearest_cutoff(facts.metrics)
    found = {r.ranking: r.recall for r in facts.metrics if r.day == newest and r.cutoff == k}
    names = _in_order([r for r in facts.metrics if r.day == newest])
    popularity = found.get("popularity")
    beside = f"popularity {popularity:.3f}" if popularity is not None else ""
    return f"{found[names[0]]:.3f}", f"Recall@{k}; {beside}"
