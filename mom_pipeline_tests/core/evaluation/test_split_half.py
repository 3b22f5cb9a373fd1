"""What two halves of the users agree on is what there is to be found."""

from dataclasses import replace

import numpy as np
import pytest

from mom_pipeline.core import simulate
from mom_pipeline.core.algorithm.daily_classes import tensor_in_span, whiten_in_span
from mom_pipeline.core.algorithm.decomposition import decompose_simultaneously
from mom_pipeline.core.evaluation.split_half import (
    HalfMoments,
    half_of,
    split_half_agreement,
    updated_half,
)
from mom_pipeline.core.moments.anchored import AnchoredMoments
from mom_pipeline.core.moments.daily import DailySettings, advance
from mom_pipeline.core.moments.halves import in_first_half
from mom_pipeline.core.moments.sums import Estimator

TRUE_CLASSES, FITTED = 4, 6


def fitted(X, estimator="balanced"):
    """Moments of everyone and the components of the full model."""
    settings = DailySettings(Estimator.of(estimator), FITTED, 20, 0.0, seed=0)
    moments = advance(X, None, "", settings).state.moments
    whitening = whiten_in_span(moments, FITTED)
    found = decompose_simultaneously(tensor_in_span(moments, whitening), np.random.default_rng(0))
    return moments, whitening.factors * whitening.eigenvalues @ found.vectors


@pytest.fixture(scope="module")
def binary():
    _, counts = simulate(5_000, 200, TRUE_CLASSES, items_per_user=12, seed=2)
    return (counts > 0).astype(np.float64)


def test_the_halves_are_even_fixed_and_part_neighbours():
    sides = in_first_half(np.arange(10_001))
    assert abs(sides.sum() - 5_000) <= 5
    np.testing.assert_array_equal(sides[300:400], in_first_half(np.arange(300, 400)))
    runs = np.diff(np.flatnonzero(np.diff(sides.astype(int))))
    assert runs.max() <= 3


def test_classes_that_exist_are_found_twice_and_noise_is_not(binary):
    moments, components = fitted(binary)
    agreement = split_half_agreement(moments, half_of(binary, moments.anchor), components, 0)
    assert agreement.shape == (FITTED,)
    assert (agreement[:TRUE_CLASSES] > 0.95).all()
    assert (agreement[TRUE_CLASSES:] < 0.5).all()
    assert agreement.min() >= 0
    assert agreement.max() <= 1


def test_more_users_agree_more():
    _, counts = simulate(8_000, 200, FITTED, items_per_user=8, seed=5)
    means = []
    for n_users in (300, 8_000):
        X = (counts[:n_users] > 0).astype(np.float64)
        moments, components = fitted(X)
        half = half_of(X, moments.anchor)
        means.append(split_half_agreement(moments, half, components, 0).mean())
    assert means[0] + 0.1 < means[1]


def test_one_half_twice_agrees_with_itself(binary):
    """If both halves are the same users, every component is found again."""
    half_rows = binary[in_first_half(np.arange(binary.shape[0]))]
    moments, components = fitted(half_rows)
    half = HalfMoments.of(half_rows, moments.anchor)
    twice = replace(
        moments,
        pairs=2 * moments.pairs,
        triples=2 * moments.triples,
        sums=moments.sums + moments.sums,
    )
    agreement = split_half_agreement(twice, half, components, 0)
    assert (agreement[:TRUE_CLASSES] > 0.9999).all()


def test_a_rebuild_has_the_half_at_hand(binary):
    settings = DailySettings(Estimator.of("balanced"), FITTED, 20, 0.0, seed=0)
    state = advance(binary, None, "", settings).state
    whole = AnchoredMoments.of(binary, state.moments.anchor)
    np.testing.assert_allclose(state.moments.triples, whole.triples, atol=1e-9)
    np.testing.assert_allclose(state.half.triples, half_of(binary, whole.anchor).triples, atol=1e-9)
    assert advance(binary, (binary, state), "", settings).state.half is None


def test_both_halves_add_up_to_everyone(binary):
    moments, _ = fitted(binary)
    first = half_of(binary, moments.anchor)
    second = HalfMoments.of(binary[~in_first_half(np.arange(binary.shape[0]))], moments.anchor)
    np.testing.assert_allclose(first.others(moments).triples, second.triples, atol=1e-9)
    np.testing.assert_allclose(first.others(moments).pairs, second.pairs, atol=1e-9)
    assert first.others(moments).triple_weight == pytest.approx(second.triple_weight)


@pytest.mark.parametrize("estimator", ["balanced", "unbiased", "paper"])
def test_an_update_is_the_sum_over_the_half(estimator):
    _, counts = simulate(600, 80, 3, items_per_user=10, seed=1)
    before, X = counts[:550], counts.copy()
    X.data[X.indptr[20] : X.indptr[30]] += 1.0
    moments, _ = fitted(before, estimator)
    changed = np.concatenate([np.arange(20, 30), np.arange(550, 600)])
    yesterday = half_of(before, moments.anchor)
    found = updated_half(yesterday, before, X, changed, moments.anchor)
    whole = half_of(X, moments.anchor)
    np.testing.assert_allclose(found.pairs, whole.pairs, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.triples, whole.triples, rtol=1e-8, atol=1e-8)
    assert found.pair_weight == pytest.approx(whole.pair_weight)
    assert found.triple_weight == pytest.approx(whole.triple_weight)
    assert np.abs(found.triples - yesterday.triples).max() > 1e-3


def test_a_half_that_supports_nothing_agrees_with_nothing(binary):
    moments, components = fitted(binary)
    nobody = HalfMoments.of(binary[:0], moments.anchor)
    np.testing.assert_array_equal(split_half_agreement(moments, nobody, components, 0), 0.0)
    # One user supports one component at most: the others have no counterpart.
    one = AnchoredMoments.of(binary[:1], moments.anchor)
    half = HalfMoments(one.pairs, one.triples, one.sums.pair_weight, one.sums.triple_weight)
    assert (split_half_agreement(moments, half, components, 0) > 0).sum() <= 1
