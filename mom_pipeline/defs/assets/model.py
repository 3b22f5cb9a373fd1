"""Group `model`: the components of each day, and the memberships of its users."""

from datetime import date

import numpy as np

from mom_pipeline.core.algorithm.decompose import ComponentFit, find_components
from mom_pipeline.core.evaluation.stability import drift, split_half
from mom_pipeline.core.evaluation.theorem1 import bounds_of
from mom_pipeline.core.linear_algebra.compact import unpacked
from mom_pipeline.core.ranking.lists import HistoryOf, refresh_memberships
from mom_pipeline.core.types import Array
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.daily import DayOutput, DayRun, daily_asset
from mom_pipeline.pipeline.days import Days


@daily_asset("model", {"numpy"}, "whitened_tensor", from_yesterday=True)
def decomposition(run: DayRun, day: date) -> DayOutput:
    """The components: O = P[item | component] and pi = P[component].

    All components of the tensor are computed at once, starting from those of the anchor's day;
    each keeps its number from day to day, also across a rebuild. `agreement` says how well two
    halves of the users, each for itself, find the same component: 1 the same, 0 none.
    """
    days, settings = run.days, run.folder.settings
    earlier = days.item_probs(days.day_before(day))
    fit = _fit(days, day, earlier)
    components, O, pi = fit.components, fit.components.item_probs, fit.components.weights
    seed, starts = settings.model.seed, fit.anchor.half_components
    halves = split_half(fit.sums, components.in_span, seed, starts=starts)
    moved = drift(O, O if earlier is None else earlier)
    verdicts = [
        checks.distributions("distributions", pi=pi, O=O),
        checks.split_half(halves.agreement, pi, checks.too_early(settings, day)),
    ]
    facts = metadata.of_components(components, moved, halves.agreement)
    stored = {**facts, "agreement": halves.agreement.tolist(), "drift": moved.tolist()}
    made = days.write_components(
        day, components, halves, fit.anchor, stored, sound=checks.sound(verdicts)
    )
    labels = run.folder.item_labels()
    eigenvalues = components.whitening.eigenvalues
    bounds = bounds_of(fit.anchor.estimator, fit.sums.first, eigenvalues, pi)
    shown = {
        **facts,
        "components": metadata.component_table(components, moved, halves.agreement, labels),
        **metadata.of_bounds(bounds),
    }
    summary = f"{len(pi)} components, residual {facts['residual']:.4f}"
    return DayOutput(made.version, summary, shown, verdicts)


def _fit(days: Days, day: date, earlier_item_probs: Array | None) -> ComponentFit:
    """The components of a day with their sums."""
    anchor, sums = days.moments(day)
    whitening = days.whitening(day)
    tensor = days.arrays("whitened_tensor", day)["tensor"]
    anchor = days.with_components(day, anchor)
    components = find_components(
        anchor,
        sums,
        whitening,
        unpacked(tensor, whitening.n_components),
        days.decompose_settings(day),
        earlier_item_probs=earlier_item_probs,
    )
    return ComponentFit(anchor, sums, components)


@daily_asset("model", {"numpy"}, "decomposition")
def user_personalization(run: DayRun, day: date) -> DayOutput:
    """P[component | user] of every user, by Bayes' rule from O, pi and the user's history."""
    days, rows = run.days, run.days.rows(day)
    model = days.model(day, with_pairs=False)
    history, everyone = HistoryOf(model, days.half_life(day)), np.arange(rows.X.shape[0])
    P = run.folder.array((len(everyone), len(model.weights)), model.item_probs.dtype)
    refresh_memberships(history, run.folder.users(rows), everyone, None, P)
    verdicts = [checks.distributions("posteriors", posteriors=P.T)]
    made = days.publish(
        "user_personalization", day, arrays={"memberships": P}, sound=checks.sound(verdicts)
    )
    shown = {"users": len(everyone), **metadata.entropy(P, rows.X)}
    return DayOutput(made.version, f"{len(everyone)} users", shown, verdicts)
