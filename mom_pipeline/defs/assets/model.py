"""Groups `moments` and `model`: settings, sums over users, whitening, components, memberships."""

from contextlib import suppress
from dataclasses import asdict
from datetime import date

import dagster as dg
import numpy as np

from mom_pipeline.core.algorithm.decompose import Components, find_components
from mom_pipeline.core.algorithm.whitening import symmetry_error, whiten, whitening_error
from mom_pipeline.core.algorithm.whitening import whitened_tensor as whiten_triples
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.evaluation.stability import drift, split_half
from mom_pipeline.core.evaluation.theorem1 import bounds_of
from mom_pipeline.core.groups.chance import chance_agreement
from mom_pipeline.core.linear_algebra.compact import packed, unpacked
from mom_pipeline.core.moments.days import AnchoredCooccurrences, advance
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.lists import memberships_of
from mom_pipeline.core.ranking.memberships import posterior_entropy
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array
from mom_pipeline.defs import checks
from mom_pipeline.defs.daily import DayOutput, DayRun, daily_asset, table
from mom_pipeline.pipeline.choice import settings_of_day
from mom_pipeline.pipeline.days import NotUsable

_TOP_EIGENVALUES = 50
_TOP_PAIRS, _TOP_COMPONENTS, _TOP_ITEMS = 10, 25, 8
_BOUNDS = ("mu_bound", "pi_bound", "n1", "n2", "n3", "sigma_1", "sigma_k", "delta")


@daily_asset(
    "moments",
    {"numpy"},
    "interaction_matrix",
    from_yesterday=True,
    config_schema={"anew": dg.Field(bool, default_value=False, is_required=False)},
)
def chosen_settings(run: DayRun, day: date) -> DayOutput:
    """The weights of the ranking, learnt from what users took on later days; K and the estimator.

    Made at first, once the interactions have grown by a half, and after `tuning.every_days` days;
    in between a day takes those of the day before. What the settings file names is fixed.
    """
    days, folder = run.days, run.folder
    matrix = days.usable("interaction_matrix", day).facts
    earlier = None
    if not run.config["anew"]:
        with suppress(NotUsable):
            earlier = days.chosen(days.day_before(day))
    sizes = matrix["users"], matrix["interactions"]
    chosen = settings_of_day(folder.warehouse, day, *sizes, earlier, folder)
    (model, ranking), evidence = chosen.method, dict(chosen.evidence)
    trials = evidence.pop("trials", [])
    weights = [
        {"feature": name, "weight": pair[0], "by_length": pair[1]}
        for name, pair in asdict(ranking).items()
        if not name.startswith("length_")
    ]
    return DayOutput(
        chosen.evidence.get("words", "the settings as they stand"),
        {
            "chosen_on": chosen.chosen_on or "not chosen",
            "n_components": model.n_components,
            "estimator": model.estimator,
            "rows": model.rows,
            "personalization": model.personalization,
            "ranking": model.ranking,
            "weights": table(weights),
            "tried": table(trials),
            **evidence,
        },
        content=chosen.method,
        facts={"chosen": chosen.as_dict()},
    )


@daily_asset(
    "moments",
    {"numpy"},
    "chosen_settings",
    from_yesterday=True,
    config_schema={"full": dg.Field(bool, default_value=False, is_required=False)},
)
def m2_statistics(run: DayRun, day: date) -> DayOutput:
    """First, second and third moments, seen through the basis of the last full rebuild.

        H = sum_u a_u (B.T x)(B.T x).T,   T_B = sum_u a'_u (B.T x)^(⊗3),   C = sum_u a_u x (B.T x).T

    A day subtracts the old rows of its changed users and adds their new ones. It is computed in
    full when yesterday's sums cannot be built upon, or when the basis no longer holds enough of
    the second moment; `mode` says which, and why.
    """
    days, settings = run.days, run.folder.settings
    rows, chosen = days.rows(day), days.chosen(day)
    if rows.X.nnz == 0:  # the first days of a log may be so
        n_users, n_items, least = *rows.X.shape, settings.matrix
        raise TooLittleData(
            f"of {n_users:,} users and {n_items:,} items none passes the filters "
            f"(matrix.min_item_users = {least.min_item_users}, matrix.min_user_items = "
            f"{least.min_user_items}); add days, or lower them"
        )
    yesterday, reason = None, "a full rebuild was asked for"
    if not run.config["full"]:
        try:
            yesterday, reason = days.yesterday(day), ""
        except NotUsable as unusable:
            reason = str(unusable)
    users = run.folder.users(rows)
    step = advance(rows.X, yesterday, reason, days.moment_settings(day), users)

    first = step.sums.first
    facts = {
        "mode": f"full: {step.reason}" if step.reason else "incremental",
        "changed_users": len(step.changed),
        "users": first.n_users,
        **dict(zip(("d1s", "d2s", "d3s"), first.mean_sizes, strict=True)),
        "captured_share": step.captured_share,
        "passes": step.anchor.passes if step.reason else 0,
    }
    if step.pairs is not None:
        facts["cooccurrences"] = step.pairs.counts.n_pairs
        facts["changed_since_rebuild"] = step.pairs.drift
        facts["items_without_cooccurrences"] = len(step.pairs.base.uncounted)
    arrays, written = days.write_moments(day, step)
    if step.pairs is not None:
        arrays |= Ease.from_counts(step.pairs.counts).as_arrays()
    threshold, early = settings.rebuild.capture_threshold, checks.too_early(settings, day)
    return DayOutput(
        f"{facts['mode']}, {len(step.changed)} users visited",
        {
            **facts,
            "anchor_day": written["anchor_day"],
            "top_pairs": _top_pairs(step.pairs, run.folder.item_labels()),
        },
        [
            checks.finite("finite_moments", step.sums.pairs, step.sums.triples),
            checks.enough_users(first.n_users, chosen.model.n_components).unless(early),
            checks.captured(step.captured_share, threshold, step.reason),
        ],
        arrays=arrays,
        facts={**facts, **written},
    )


@daily_asset("moments", {"numpy"}, "m2_statistics")
def whitening_matrix(run: DayRun, day: date) -> DayOutput:
    """W with W.T M2 W = I, inside the span of the anchor's basis: W = U F.

    Only F and the spectrum are stored; U belongs to the anchor's day and does not change.
    """
    days = run.days
    anchor, sums = days.moments(day)
    whitening = whiten(sums, days.chosen(day).model.n_components, dtype=anchor.basis.dtype)
    error = whitening_error(run.folder.users(days.rows(day)), anchor, sums, whitening)
    moments = days.made["m2_statistics", day].facts
    eigenvalues = whitening.spectrum[:_TOP_EIGENVALUES].tolist()
    return DayOutput(
        f"K = {whitening.n_components}, error {error:.1e}",
        {
            "n_components": whitening.n_components,
            "n_components_requested": whitening.requested,
            "whitening_error": error,
            "captured_share": moments["captured_share"],
            "passes": moments["passes"],
            "spectrum": table(
                [{"number": k, "eigenvalue": v} for k, v in enumerate(eigenvalues, start=1)]
            ),
        },
        [checks.whitens(error)],
        arrays={"factors": whitening.factors, "spectrum": whitening.spectrum},
        facts={"whitening_error": error},
    )


@daily_asset("moments", {"numpy"}, "whitening_matrix")
def whitened_tensor(run: DayRun, day: date) -> DayOutput:
    """The third moment in whitened coordinates, T = T_B(F, F, F), of shape (K, K, K).

    T_B was brought up to date with the changed users of the day; no user is visited again.
    """
    days = run.days
    _, sums = days.moments(day)
    T = whiten_triples(sums, days.whitening(day))
    norm = float(np.linalg.norm(T))
    return DayOutput(
        f"norm {norm:.3f}",
        {
            "symmetry_error": symmetry_error(T),
            "norm": norm,
            "users_visited": days.made["m2_statistics", day].facts["changed_users"],
            "shape": str(T.shape),
        },
        [checks.finite("finite_tensor", T)],
        arrays={"tensor": packed(T)},
    )


@daily_asset("model", {"numpy"}, "whitened_tensor", from_yesterday=True)
def decomposition(run: DayRun, day: date) -> DayOutput:
    """The components: O = P[item | component] and pi = P[component].

    All components of the tensor are computed at once, starting from those of the anchor's day;
    each keeps its number from day to day, also across a rebuild. `agreement` says how well two
    halves of the users, each for itself, find the same component: 1 the same, 0 none.
    """
    days, settings = run.days, run.folder.settings
    anchor, sums = days.moments(day)
    whitening, tensor = days.whitening(day), days.arrays("whitened_tensor", day)["tensor"]
    anchor, earlier = days.with_components(day, anchor)
    components = find_components(
        anchor,
        sums,
        whitening,
        unpacked(tensor, whitening.n_components),
        days.decompose_settings(day),
        earlier_item_probs=earlier,
    )
    O, pi, recovery = components.item_probs, components.weights, components.recovery
    starts = anchor.half_components
    halves = split_half(sums, components.in_span, settings.model.seed, starts=starts)
    agreement, moved = halves.agreement, drift(O, O if earlier is None else earlier)

    facts = {
        "residual": components.decomposition.residual,
        "sweeps": components.decomposition.iterations,
        "negative_mass": recovery.negative_mass,
        "weight_sum": recovery.weight_sum,
        "largest_drift": float(moved.max()),
        "lowest_agreement": float(agreement.min()),
        "mean_agreement": float(agreement @ pi),
        "chance": chance_agreement(sums, components.in_span, settings.model.seed),
    }
    shown = {
        **facts,
        "components": _component_table(components, moved, agreement, run.folder.item_labels()),
    }
    eigenvalues = components.whitening.eigenvalues
    if bounds := bounds_of(anchor.estimator, sums.first, eigenvalues, pi):  # Theorem 1
        numbers = {name: float(asdict(bounds)[name]) for name in _BOUNDS}
        shown |= {"bounds": table([numbers]), "bounds_in_words": bounds.in_words}
    return DayOutput(
        f"{len(pi)} components, residual {facts['residual']:.4f}",
        shown,
        [
            checks.distributions("distributions", pi=pi, O=O),
            checks.split_half(agreement, pi).unless(checks.too_early(settings, day)),
        ],
        arrays=days.component_arrays(components, halves, anchor),
        facts={**facts, "agreement": agreement.tolist(), "drift": moved.tolist()},
    )


@daily_asset("model", {"numpy"}, "decomposition")
def user_personalization(run: DayRun, day: date) -> DayOutput:
    """P[component | user] of every user, by Bayes' rule from O, pi and the user's history."""
    days, rows = run.days, run.days.rows(day)
    model = days.model(day, with_pairs=False)
    n_users = rows.X.shape[0]
    P = run.folder.array((n_users, len(model.weights)), model.item_probs.dtype)
    memberships_of(model, run.folder.users(rows), P)
    bits = posterior_entropy(P)[np.diff(rows.X.indptr) > 0]
    return DayOutput(
        f"{n_users} users",
        {"users": n_users, "mean_entropy_bits": float(bits.mean())},
        [checks.distributions("posteriors", posteriors=P.T)],
        arrays={"memberships": P},
    )


def _top_pairs(pairs: AnchoredCooccurrences | None, labels: Array) -> dg.TableMetadataValue | str:
    """The items that go together most often, with their share of all co-occurrences."""
    if pairs is None or not pairs.counts.n_pairs:
        return "–"
    upper = pairs.counts.upper.tocoo()
    units = np.where(upper.row < upper.col, upper.data, 0).astype(np.float64)
    (best,), (sums,) = top_n(units[None], _TOP_PAIRS)
    return table(
        [
            {
                "item": str(labels[upper.row[k]]),
                "other_item": str(labels[upper.col[k]]),
                "share": round(n / float(units.sum()), 6),
            }
            for k, n in zip(best.tolist(), sums.tolist(), strict=True)
            if n > 0
        ]
    )


def _component_table(
    components: Components, moved: Array, agreement: Array, labels: Array
) -> dg.TableMetadataValue | str:
    """Pi, lambda, drift, agreement and the most probable items of the heaviest components."""
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
                "top_items": ", ".join(str(labels[y]) for y in items),
            }
            for k, items in zip(shown.tolist(), best, strict=True)
        ]
    )
