"""Metadata of a day on Dagster's pages: numbers, which Dagster plots, and tables.

No id of a person is ever among them: Dagster keeps its history for good.
"""

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
from mom_pipeline.core.moments.days import AnchoredCooccurrences, DayStep
from mom_pipeline.core.moments.sums import users_per_item
from mom_pipeline.core.ranking.memberships import posterior_entropy
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.logs.ledger import DeliveredDay
from mom_pipeline.pipeline.choice import ChosenSettings
from mom_pipeline.warehouse.evaluations import MetricsRow

_TOP_PAIRS, _TOP_COMPONENTS, _TOP_ITEMS, _TOP_EIGENVALUES = 10, 25, 8, 50
_CUTOFFS = (5, 10, 20, 50, 100)
_BOUNDS = ("mu_bound", "pi_bound", "n1", "n2", "n3", "sigma_1", "sigma_k", "delta")


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


def of_delivery(delivered: DeliveredDay) -> dict[str, Any]:
    """Counts of a delivery day, and some of its events without their users."""
    reasons = [{"reason": reason, "rows": n} for reason, n in delivered.reasons.items()]
    return {
        "files": delivered.files,
        "rows": delivered.accepted,
        "rejects": delivered.rejected,
        "reject_reasons": table(reasons),
        "users": delivered.users,
        "items": delivered.items,
        "sample_rows": table(delivered.sample),
    }


def of_matrix(X: Csr, n_changed: int) -> dict[str, Any]:
    """Sizes of the interaction matrix."""
    items_per_user = np.diff(X.indptr)
    users, items = int((items_per_user > 0).sum()), int(np.count_nonzero(users_per_item(X)))
    return {
        "users": users,
        "items": items,
        "non_zeros": int(X.nnz),
        "density": X.nnz / max(users * items, 1),
        "median_items_per_user": float(np.median(items_per_user[items_per_user > 0]))
        if users
        else 0.0,
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
    facts = {
        "mode": f"full: {step.reason}" if step.reason else "incremental",
        "changed_users": len(step.changed),
        "users": step.sums.first.n_users,
        "d1s": d1,
        "d2s": d2,
        "d3s": d3,
        "captured_share": step.captured_share,
        "passes": step.anchor.passes if step.reason else 0,
    }
    if step.pairs is not None:
        facts |= {
            "cooccurrences": step.pairs.counts.n_pairs,
            "changed_since_rebuild": step.pairs.drift,
            "items_without_cooccurrences": len(step.pairs.base.uncounted),
        }
    return facts


def top_pairs(pairs: AnchoredCooccurrences | None, item_ids: Array) -> dg.TableMetadataValue | str:
    """The items that go together most often, with their share of all co-occurrences."""
    if pairs is None:
        return "–"
    upper = pairs.counts.upper.tocoo()
    units = np.where(upper.row < upper.col, upper.data, 0)
    best = np.argsort(-units, kind="stable")[:_TOP_PAIRS]
    return table(
        [
            {
                "item": str(item_ids[upper.row[k]]),
                "other_item": str(item_ids[upper.col[k]]),
                "share": round(float(units[k] / max(units.sum(), 1)), 6),
            }
            for k in best[units[best] > 0]
        ]
    )


def spectrum(whitening: Whitening) -> dg.TableMetadataValue | str:
    """The eigenvalues of M2 inside the span, the first ones of many."""
    values = whitening.spectrum[:_TOP_EIGENVALUES].tolist()
    return table([{"number": k, "eigenvalue": value} for k, value in enumerate(values, start=1)])


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


def of_bounds(bounds: Bounds | None) -> dict[str, Any]:
    """Theorem 1, for models that it is about."""
    if bounds is None:
        return {}
    numbers = {name: float(value) for name, value in asdict(bounds).items() if name in _BOUNDS}
    return {"bounds": table([numbers]), "bounds_in_words": bounds.in_words}


def entropy(P: Array, X: Csr) -> dict[str, Any]:
    """How certain the memberships of users with a history are."""
    bits = posterior_entropy(P)[np.diff(X.indptr) > 0]
    return {"mean_entropy_bits": float(bits.mean())}


def of_backtest(backtest: Backtest, rows: Sequence[MetricsRow]) -> dict[str, Any]:
    """Metrics at every cut-off; recall and MAP as numbers, which Dagster plots by day."""
    k = nearest_cutoff(backtest.model.cutoffs)
    return {
        "model_day": rows[0].model_day.isoformat(),
        "users": backtest.model.n_users,
        "newcomers_excluded": backtest.n_newcomers,
        f"recall_at_{k}": backtest.model.recall[k],
        f"popularity_recall_at_{k}": backtest.popularity.recall[k],
        f"map_at_{k}": backtest.model.map[k],
        "metrics": table([_rounded(row) for row in rows if row.cutoff in {k, *_CUTOFFS}]),
    }


def _rounded(row: MetricsRow) -> dict[str, Any]:
    metrics = {
        name: round(getattr(row, name), 5) for name in ("precision", "recall", "map", "ndcg")
    }
    return {"ranking": row.ranking, "cutoff": row.cutoff, **metrics}
