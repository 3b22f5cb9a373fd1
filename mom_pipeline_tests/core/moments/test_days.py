"""A day from its changed users is the day from all users, whatever the path."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import simulate
from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.algorithm.whitening import (
    symmetry_error,
    whiten,
    whitened_tensor,
    whitening_error,
)
from mom_pipeline.core.evaluation.stability import drift
from mom_pipeline.core.interactions import changed_rows
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.days import (
    MomentSettings,
    Yesterday,
    advance,
    captured_share,
    fix_anchor,
    width_for_days,
)
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory, in_first_half
from mom_pipeline_tests.core.conftest import assert_same_sums

N, D, K = 1200, 150, 4


def moment_settings(estimator="balanced", threshold=0.0):
    return MomentSettings(
        Estimator.from_name(estimator),
        K,
        width_for_days(K),
        halves=True,
        capture_threshold=threshold,
    )


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
        yesterday = Yesterday(before, steps[-1].anchor, steps[-1].sums)
        steps.append(advance(now, yesterday, "", settings))
    return steps


def components_of(step, start=None, earlier=None):
    anchor = replace(step.anchor, components=start)
    return decompose(anchor, step.sums, DecomposeSettings(K), earlier_item_probs=earlier)


@pytest.mark.parametrize(
    ("estimator", "pairs_per_block"),
    [("balanced", 500), ("balanced", 4_000_000), ("unbiased", 500), ("paper", 500)],
)
def test_updates_equal_the_sums_over_all_users_given_the_same_anchor(
    days, estimator, pairs_per_block, monkeypatch
):
    monkeypatch.setattr("mom_pipeline.core.moments.days._PAIRS_PER_BLOCK", pairs_per_block)
    steps = chain(days, moment_settings(estimator))
    assert [step.reason for step in steps] == ["the first day", "", "", "", ""]
    start = components_of(steps[0]).in_span
    for X, step in zip(days, steps, strict=True):
        anchor, half = steps[0].anchor.with_items(X.shape[1]), in_first_half(np.arange(X.shape[0]))
        whole = AnchoredSums.from_rows(X, anchor, in_half=half)
        assert_same_sums(step.sums, whole, rtol=1e-8)
        one, two = (components_of(replace(step, sums=sums), start) for sums in (step.sums, whole))
        np.testing.assert_allclose(one.item_probs, two.item_probs, atol=1e-8)
        np.testing.assert_allclose(one.weights, two.weights, atol=1e-8)


def test_a_new_item_that_all_take_has_the_probability_of_a_rebuild(days):
    """A hit of the day: its own share of M2 is no longer small beside the eigenvalues."""
    settings, (before, now) = moment_settings(), days[:2]
    hit = now.tolil()
    hit[:250, 125] = 1.0
    hit = hit.tocsr()
    first = advance(before, None, "the first day", settings)
    step = advance(hit, Yesterday(before, first.anchor, first.sums), "", settings)
    assert not step.reason
    ours = components_of(step, components_of(first).in_span)
    full = components_of(advance(hit, None, "in full", settings))
    ours, theirs = (c.item_probs[125] @ c.weights for c in (ours, full))
    assert theirs > 0.01
    np.testing.assert_allclose(ours, theirs, rtol=0.05)


def test_capture_falls_with_what_the_basis_does_not_know_and_then_asks_for_a_rebuild(days):
    settings = moment_settings()
    first = advance(days[0], None, "", settings)
    share = captured_share(UsersInMemory(days[0]), first.anchor, first.sums, settings)
    assert share == pytest.approx(1, abs=1e-6)
    steps = chain(days[:2], moment_settings(threshold=1.0))
    assert steps[1].captured_share < 0.999
    assert "below 1" in steps[1].reason
    assert steps[1].anchor.basis[120:].any()


def test_capture_sees_users_who_share_no_item_with_the_span():
    _, old = simulate(1500, 700, K, items_per_user=12, seed=1)
    _, new = simulate(1500, 700, K, items_per_user=12, seed=2)
    together = sparse.csr_array(sparse.block_diag([old, new], format="csr", dtype=float))
    settings = moment_settings("paper")
    anchor = fix_anchor(UsersInMemory(old.astype(float)), settings).with_items(1400)
    sums = AnchoredSums.from_rows(together, anchor)
    share = captured_share(UsersInMemory(together), anchor, sums, settings)
    M2 = (together.T @ together).toarray() / sums.first.pair_weight
    top = np.linalg.eigvalsh(M2)[::-1][:K]
    held = np.linalg.eigvalsh(sums.pairs / sums.first.pair_weight)[::-1][:K]
    assert share == pytest.approx(held.sum() / top.sum(), abs=0.03)
    assert share < 0.9


def test_whitening_and_symmetry_are_measured(days):
    """The whitening on the rows themselves, not on the sums that it was made of."""
    step = advance(days[0], None, "", moment_settings())
    whitening = whiten(step.sums, K, dtype=np.dtype(float))
    T = whitened_tensor(step.sums, whitening)
    assert symmetry_error(T) < 1e-12
    T[0, 1, 2] += 1
    assert symmetry_error(T) > 1e-3
    assert whitening_error(UsersInMemory(days[0]), step.anchor, step.sums, whitening) < 1e-9
    assert whitening_error(UsersInMemory(days[0][:450]), step.anchor, step.sums, whitening) > 0.1


def test_components_keep_their_numbers(days):
    steps = chain(days, moment_settings())
    first = components_of(steps[0])
    last = components_of(steps[3], first.in_span)
    moved = drift(last.item_probs, first.item_probs)
    assert moved.max() < 0.6
    swapped = drift(last.item_probs[:, ::-1], first.item_probs)
    assert moved.max() < swapped.min()
    mixed = first.item_probs[:, [2, 0, 3, 1]]
    again = components_of(advance(days[3], None, "", moment_settings()), earlier=mixed)
    assert drift(again.item_probs, mixed).max() < swapped.min()


def test_pairs_of_more_changed_users_than_fit_are_counted_with_all_others(days):
    """What changed is kept beside the pairs of the last rebuild, and must not outgrow them."""
    before, now = days[0], days[1]
    n = np.diff(now.indptr)[changed_rows(before, now)]
    needed = 48 * int((n * (n + 1)).sum() // 2)
    settings = replace(moment_settings(), pair_exponent=1.0, pair_bytes=needed)
    first = advance(before, None, "first", settings)
    yesterday = Yesterday(before, first.anchor, first.sums, first.pairs)
    assert advance(now, yesterday, "", settings).reason == ""
    bounded = replace(settings, pair_bytes=needed - 1)
    step = advance(now, yesterday, "", bounded)
    assert step.reason.startswith(f"the pairs of the {len(n):,} users who changed may exceed")
    assert step.pairs.change.n_pairs == 0
    without = replace(bounded, pair_exponent=None)
    assert advance(now, replace(yesterday, pairs=None), "", without).reason == ""
