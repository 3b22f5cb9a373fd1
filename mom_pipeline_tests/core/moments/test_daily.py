"""A day from its changed users is the day from all users, whatever the path."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import simulate
from mom_pipeline.core.algorithm.daily_classes import (
    decompose_day,
    drift,
    lifted,
    symmetry_error,
    tensor_in_span,
    whiten_in_span,
    whitening_error,
)
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.moments.daily import (
    AnchoredMoments,
    DailySettings,
    advance,
    capture,
    changed_rows,
    extended,
    grown,
    rebuild,
)
from mom_pipeline.core.moments.sums import Estimator
from mom_pipeline.core.moments.users import UsersInMemory

N, D, K = 1200, 150, 4


def daily_settings(estimator="balanced", threshold=0.0):
    return DailySettings(Estimator.of(estimator), K, 20, threshold, seed=0)


@pytest.fixture(scope="module")
def days():
    """Four matrices: users, items and events are added, and some are taken away again."""
    _, counts = simulate(N, D, K, items_per_user=12, seed=3)
    dense = counts.toarray()
    shapes = [(900, 120), (1000, 130), (1100, 140), (N, D)]
    matrices = [sparse.csr_array(dense[:n, :d].astype(float)) for n, d in shapes]
    late = matrices[3].tolil()
    late[:40] = 0.0
    late[50, 7] += 3
    return [*matrices, late.tocsr()]


def chain(days, settings):
    steps = [advance(days[0], None, "the first day", settings)]
    for before, now in pairwise(days):
        steps.append(advance(now, (before, steps[-1].state), "", settings))
    return steps


def classes_of(X, state, start=None, earlier=None):
    whitening = whiten_in_span(state.moments, K)
    T = tensor_in_span(state.moments, whitening)
    return decompose_day(
        X, state.moments, whitening, T, "clip", 0,
        anchor_components=start, earlier_item_probs=earlier,
    )  # fmt: skip


@pytest.mark.parametrize("estimator", ["balanced", "unbiased", "paper"])
def test_updates_equal_the_sums_over_all_users_given_the_same_anchor(days, estimator):
    steps = chain(days, daily_settings(estimator))
    assert [step.reason for step in steps] == ["the first day", "", "", "", ""]
    start = classes_of(days[0], steps[0].state).anchor_components
    for X, step in zip(days, steps, strict=True):
        state, anchor = step.state, extended(steps[0].state.moments.anchor, X.shape[1])
        whole = AnchoredMoments.of(X, anchor)
        np.testing.assert_allclose(state.moments.pairs, whole.pairs, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.moments.triples, whole.triples, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(state.moments.sums.item_events, whole.sums.item_events)
        taken = (X[:, state.frequent_items] > 0).toarray().astype(float)
        np.testing.assert_array_equal(state.pair_counts, taken.T @ taken)
        from_nothing = type(state)(whole, state.frequent_items, state.pair_counts)
        one, two = (classes_of(X, moments, start) for moments in (state, from_nothing))
        np.testing.assert_allclose(one.recovery.item_probs, two.recovery.item_probs, atol=1e-8)
        np.testing.assert_allclose(one.recovery.weights, two.recovery.weights, atol=1e-8)


def test_a_new_item_is_outside_of_the_span_and_yet_gets_its_probabilities(days):
    steps = chain(days[:2], daily_settings())
    assert not steps[1].state.moments.anchor.basis[120:].any()
    found = classes_of(days[1], steps[1].state).recovery.item_probs
    share = days[1].toarray()[:, 120:].sum() / days[1].sum()
    assert found[120:].sum() / K == pytest.approx(share, rel=0.5)


def test_a_new_item_that_all_take_has_the_probability_of_a_rebuild(days):
    """A hit of the day: its own share of M2 is no longer small beside the eigenvalues."""
    settings, (before, now) = daily_settings(), days[:2]
    hit = now.tolil()
    hit[:250, 125] = 1.0
    hit = hit.tocsr()
    anchored = advance(before, None, "the first day", settings)
    step = advance(hit, (before, anchored.state), "", settings)
    assert not step.reason
    start = classes_of(before, anchored.state).span_components
    found = classes_of(hit, step.state, start).recovery
    full = classes_of(hit, rebuild(UsersInMemory(hit), settings)).recovery
    ours, theirs = (r.item_probs[125] @ r.weights for r in (found, full))
    assert theirs > 0.01
    np.testing.assert_allclose(ours, theirs, rtol=0.05)


def test_lifting_stays_in_the_span_on_the_day_of_the_anchor(days):
    moments = rebuild(UsersInMemory(days[0]), daily_settings()).moments
    whitening = whiten_in_span(moments, K)
    directions = np.random.default_rng(0).standard_normal((K, K))
    within = moments.anchor.basis @ (whitening.factors * whitening.eigenvalues @ directions)
    found = lifted(days[0], moments, whitening.factors @ directions)
    np.testing.assert_allclose(found, within, atol=1e-9)


def test_capture_falls_with_what_the_basis_does_not_know_and_then_asks_for_a_rebuild(days):
    first = rebuild(UsersInMemory(days[0]), daily_settings())
    assert capture(days[0], first.moments, K, seed=0) == pytest.approx(1, abs=1e-6)
    steps = chain(days[:2], daily_settings(threshold=1.0))
    assert steps[1].captured < 0.999
    assert "below 1" in steps[1].reason
    assert steps[1].state.moments.anchor.basis[120:].any()


def test_changed_rows_are_those_that_differ(days):
    before, now = days[3], days[4]
    expected = np.flatnonzero((before.toarray() != now.toarray()).any(axis=1))
    np.testing.assert_array_equal(changed_rows(before, now), expected)
    assert 50 in expected
    assert len(changed_rows(now, now)) == 0
    np.testing.assert_array_equal(
        changed_rows(days[2], days[3])[-100:], np.arange(1100, N)
    )  # users who are new today


def test_positions_never_shrink(days):
    with pytest.raises(InvalidInteractions, match="positions only ever grow"):
        grown(days[3], (10, D))


def test_whitening_is_measured_on_the_rows_themselves(days):
    state = rebuild(UsersInMemory(days[0]), daily_settings())
    whitening = whiten_in_span(state.moments, K)
    assert whitening_error(days[0], state.moments, whitening) < 1e-9
    assert whitening_error(days[0][:450], state.moments, whitening) > 0.1


def test_components_keep_their_places(days):
    steps = chain(days, daily_settings())
    first = classes_of(days[0], steps[0].state)
    last = classes_of(days[3], steps[3].state, first.anchor_components)
    moved = drift(last.recovery.item_probs, first.recovery.item_probs)
    assert moved.max() < 0.6
    swapped = drift(last.recovery.item_probs[:, ::-1], first.recovery.item_probs)
    assert moved.max() < swapped.min()
    mixed = first.recovery.item_probs[:, [2, 0, 3, 1]]
    again = classes_of(days[3], rebuild(UsersInMemory(days[3]), daily_settings()), earlier=mixed)
    assert drift(again.recovery.item_probs, mixed).max() < swapped.min()


def test_a_component_without_a_counterpart_has_drifted_fully():
    assert drift(np.eye(3), np.eye(3)[:, :2]).tolist() == [0, 0, 1]


def test_the_tensor_is_symmetric_and_a_crooked_one_is_seen(days):
    state = rebuild(UsersInMemory(days[0]), daily_settings())
    T = tensor_in_span(state.moments, whiten_in_span(state.moments, K))
    assert symmetry_error(T) < 1e-12
    T[0, 1, 2] += 1
    assert symmetry_error(T) > 1e-3


def test_nobody_with_a_triple_is_an_error():
    X = sparse.csr_array(np.eye(4))
    with pytest.raises(InvalidInteractions, match="start on a later day"):
        rebuild(UsersInMemory(X), daily_settings("unbiased"))
