"""Group `model`: the components of each day, and the memberships of its users."""

from dataclasses import asdict
from datetime import date

import numpy as np

from mom_pipeline.core.algorithm.decompose import find_components
from mom_pipeline.core.evaluation.stability import drift, split_half
from mom_pipeline.core.evaluation.theorem1 import bounds_of
from mom_pipeline.core.groups.chance import chance_agreement
from mom_pipeline.core.linear_algebra.compact import unpacked
from mom_pipeline.core.ranking.lists import memberships_of
from mom_pipeline.core.ranking.memberships import posterior_entropy
from mom_pipeline.defs import checks
from mom_pipeline.defs.daily import DayOutput, DayRun, daily_asset
from mom_pipeline.defs.metadata import component_table, table

_BOUNDS = ("mu_bound", "pi_bound", "n1", "n2", "n3", "sigma_1", "sigma_k", "delta")


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
    anchor, earlier = days.with_components(day, anchor), days.item_probs(days.day_before(day))
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
        "components": component_table(components, moved, agreement, run.folder.item_labels()),
    }
    eigenvalues = components.whitening.eigenvalues
    if bounds := bounds_of(anchor.estimator, sums.first, eigenvalues, pi):  # Theorem 1
        numbers = {name: float(asdict(bounds)[name]) for name in _BOUNDS}
        shown |= {"bounds": table([numbers]), "bounds_in_words": bounds.in_words}
    return DayOutput(
        f"{len(pi)} components, residual {facts['residual']:.4f}",
        shown,
        [
            checks.distributions(pi=pi, O=O),
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
        [checks.posteriors(P)],
        arrays={"memberships": P},
    )
