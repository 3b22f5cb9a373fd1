"""Metadata of a day on Dagster's pages: numbers, tables and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.core.algorithm.decompose import Components
from mom_pipeline.core.algorithm.whitening import Whitening
from mom_pipeline.core.evaluation.backtest import Backtest
from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.core.evaluation.theorem1 import Bounds
from mom_pipeline.core.moments.days import AnchoredPairs, DayStep
from mom_pipeline.core.moments.sums import users_per_item
from mom_pipeline.core.ranking.memberships import posterior_entropy
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.pictures.charts import Chart, Lines, bars, curves, histogram
from mom_pipeline.pictures.svg import data_url
from mom_pipeline.settings.chosen import ChosenSettings
from mom_pipeline.warehouse.evaluations import MetricsRow

_TOP_PAIRS, _TOP_COMPONENTS, _TOP_ITEMS = 10, 25, 8
# Days of the trend that every day shows, and cut-offs of its table; the report has more of both.
_TREND_DAYS, _CUTOFFS = 28, (5, 10, 20, 50, 100)
# Bars of a picture: the history keeps it for every day.
_BARS = 50
_BOUNDS = ("mu_bound", "pi_bound", "n1", "n2", "n3", "sigma_1", "sigma_k", "delta")


def picture(*charts: Chart) -> dg.MarkdownMetadataValue:
    """Charts with their titles, inside of the metadata."""
    shown = [f"![{chart.axes.title}]({data_url(chart)})" for chart in charts]
    return dg.MetadataValue.md("\n\n".join(shown))


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue | str:
    """Rows of equal keys as a table; a dash when there are none."""
    if not rows:
        return "–"
    kinds = {bool: "bool", int: "int", float: "float"}
    columns = [
        dg.TableColumn(name, kinds.get(type(value), "string")) for name, value in rows[0].items()
    ]
    records = [dg.TableRecord(dict(row)) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))


def of_matrix(X: Csr, n_changed: int) -> dict[str, Any]:
    """Sizes of the interaction matrix, and how many items users have."""
    items_per_user = np.diff(X.indptr)
    users, items = int((items_per_user > 0).sum()), int(np.count_nonzero(users_per_item(X)))
    shown = histogram(items_per_user[items_per_user > 0], title="Items per user", x="items")
    return {
        "users": users,
        "items": items,
        "non_zeros": int(X.nnz),
        "density": X.nnz / max(users * items, 1),
        "items_per_user": picture(shown),
        "changed_users": n_changed,
    }


def of_chosen(chosen: ChosenSettings) -> dict[str, Any]:
    """The method of a day, and what its choice rests on."""
    model, evidence = chosen.model, dict(chosen.evidence)
    weights = [{"setting": name, "value": v} for name, v in asdict(chosen.ranking).items()]
    return {
        "chosen_on": chosen.chosen_on or "not chosen",
        "n_components": model.n_components,
        "estimator": model.estimator,
        "rows": model.rows,
        "personalization": model.personalization,
        "ranking": model.ranking,
        "weights": table(weights),
        **evidence,
    }


def of_moments(step: DayStep) -> dict[str, Any]:
    """How the sums of a day came about; numbers alone, which are stored beside the arrays."""
    d1, d2, d3 = step.sums.first.mean_sizes
    return {
        "mode": f"full: {step.reason}" if step.reason else "incremental",
        "changed_users": len(step.changed),
        "users": step.sums.first.n_users,
        "d1s": d1,
        "d2s": d2,
        "d3s": d3,
        "captured_share": step.captured_share,
        "passes": step.anchor.passes if step.reason else 0,
        **_of_pairs(step.pairs),
    }


def _of_pairs(pairs: AnchoredPairs | None) -> dict[str, Any]:
    if pairs is None:
        return {}
    return {
        "pairs": pairs.counts.n_pairs,
        "pairs_changed_since_rebuild": pairs.drift,
        "items_without_pairs": len(pairs.base.uncounted),
    }


def top_pairs(step: DayStep, item_ids: Array) -> dg.TableMetadataValue | str:
    """The most frequent pairs among the frequent items, counted exactly."""
    counts, items = np.triu(step.sums.frequent_pairs, 1), step.anchor.frequent_items
    best = np.argsort(-counts, axis=None, kind="stable")[:_TOP_PAIRS]
    pairs = np.array(np.unravel_index(best, counts.shape)).T
    return table(
        [
            {
                "item": str(item_ids[items[i]]),
                "other_item": str(item_ids[items[j]]),
                "users": int(counts[i, j]),
            }
            for i, j in pairs
            if counts[i, j] > 0
        ]
    )


def spectrum(whitening: Whitening) -> dg.MarkdownMetadataValue:
    """The eigenvalues of M2 inside the span, the first ones of many."""
    return picture(
        bars(
            whitening.spectrum[:_BARS],
            title=f"Eigenvalues of M2; the first {whitening.n_components} are whitened",
            x="number of the eigenvalue",
            y="eigenvalue",
            log=True,
        )
    )


def of_components(components: Components, moved: Array, agreement: Array) -> dict[str, Any]:
    """How well the tensor was decomposed; numbers alone, which are stored beside the arrays."""
    decomposition, recovery = components.decomposition, components.recovery
    return {
        "residual": decomposition.residual,
        "sweeps": decomposition.iterations,
        "negative_mass": recovery.negative_mass,
        "weight_sum": recovery.weight_sum,
        "largest_drift": float(moved.max()),
        "lowest_agreement": float(agreement.min()),
        "mean_agreement": float(agreement @ recovery.weights),
    }


def component_table(
    components: Components, moved: Array, agreement: Array, item_ids: Array
) -> dg.TableMetadataValue | str:
    """Pi, lambda, drift since yesterday, split-half agreement and the most probable items.

    Of the heaviest components; the report has all of them.
    """
    O, pi, lambdas = components.item_probs, components.weights, components.decomposition.lambdas
    shown = np.sort(np.argsort(-pi, kind="stable")[:_TOP_COMPONENTS])
    best, _ = top_n(O[:, shown].T, _TOP_ITEMS)
    return table(
        [
            {
                "component": k + 1,
                "pi": round(float(pi[k]), 4),
                "lambda": round(float(lambdas[k]), 4),
                "drift": round(float(moved[k]), 4),
                "agreement": round(float(agreement[k]), 3),
                "top_items": ", ".join(str(item_ids[y]) for y in items),
            }
            for k, items in zip(shown.tolist(), best, strict=True)
        ]
    )


def weights_picture(components: Components) -> dg.MarkdownMetadataValue:
    """The weights of the components as bars, the first ones of many."""
    title = "pi, the weights of the components"
    return picture(bars(components.weights[:_BARS], title=title, x="component", y="P[component]"))


def of_bounds(bounds: Bounds | None) -> dict[str, Any]:
    """Theorem 1, for models that it is about."""
    if bounds is None:
        return {}
    numbers = {name: float(value) for name, value in asdict(bounds).items() if name in _BOUNDS}
    return {"bounds": table([numbers]), "bounds_in_words": bounds.in_words}


def entropy(P: Array, X: Csr) -> dict[str, Any]:
    """How certain the memberships of users with a history are."""
    bits = posterior_entropy(P)[np.diff(X.indptr) > 0]
    shown = histogram(bits, title="Entropy of the memberships", x="entropy, bits")
    return {"mean_entropy_bits": float(bits.mean()), "entropy": picture(shown)}


def of_backtest(
    backtest: Backtest, rows: Sequence[MetricsRow], history: Sequence[MetricsRow]
) -> dict[str, Any]:
    """Metrics at every cut-off, and recall by day. history: rows of all days up to this one."""
    k = nearest_cutoff(backtest.model.cutoffs)
    n_users = backtest.model.n_users
    return {
        "model_day": rows[0].model_day.isoformat(),
        "users": n_users,
        "newcomers_left_out": backtest.n_newcomers,
        f"recall_at_{k}": backtest.model.recall[k],
        f"popularity_recall_at_{k}": backtest.popularity.recall[k],
        "metrics": table([_rounded(row) for row in rows if row.cutoff in {k, *_CUTOFFS}]),
        "recall": picture(
            curves(
                backtest.model.cutoffs,
                {
                    rows[0].ranking: list(backtest.model.recall.values()),
                    "popularity": list(backtest.popularity.recall.values()),
                },
                title="Recall at each cut-off",
                x_label="cut-off, items in the list",
                y=f"recall (n = {n_users:,} users)",
            )
        ),
        "trend": picture(_trend(history, rows[0].ranking, k)),
    }


def _trend(history: Sequence[MetricsRow], ranking: str, k: int) -> Lines:
    """Recall by day of the ranking and of popularity, on the newest days that have both."""
    recalls = {(row.day, row.ranking): row.recall for row in history if row.cutoff == k}
    days = [day for day, name in recalls if name == ranking and (day, "popularity") in recalls]
    days = days[-_TREND_DAYS:]
    return curves(
        [f"{day:%m-%d}" for day in days],
        {name: [recalls[day, name] for day in days] for name in (ranking, "popularity")},
        title=f"Recall@{k} by day",
        x_label=f"day (n = {len(days)})",
        y=f"recall@{k}, mean of users",
    )


def _rounded(row: MetricsRow) -> dict[str, Any]:
    metrics = {
        name: round(getattr(row, name), 5) for name in ("precision", "recall", "map", "ndcg")
    }
    return {"ranking": row.ranking, "cutoff": row.cutoff, **metrics}
