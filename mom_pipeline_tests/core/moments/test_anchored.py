from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mom_pipeline.core.algorithm.daily_classes import tensor_in_span, whiten_in_span
from mom_pipeline.core.algorithm.decomposition import decompose
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.linear_algebra.eigenpairs import guarded_width, top_eigenpairs
from mom_pipeline.core.moments.anchored import Anchor, AnchoredMoments
from mom_pipeline.core.moments.daily import extended
from mom_pipeline.core.moments.pairs import PairMoments
from mom_pipeline.core.moments.sums import Estimator, MomentSums
from mom_pipeline.core.moments.triples import triple_sums
from mom_pipeline.core.simulation import simulate

NAMES = ["paper", "unbiased", "balanced"]
K = 5


def anchor_of(X, name, width=None):
    estimator = Estimator.of(name)
    M2 = PairMoments.of(X, MomentSums.of(X, estimator), estimator)
    rng = np.random.default_rng(0)
    pairs = top_eigenpairs(M2, K, rng, tol=1e-12, max_passes=80)
    width = width or guarded_width(K, X.shape[1])
    return Anchor(pairs.vectors[:, :width], M2.item_scale, estimator)


def assert_same_moments(found, expected):
    for name in ("pairs", "triples"):
        a, b = getattr(found, name), getattr(expected, name)
        assert np.linalg.norm(a - b) <= 1e-9 * np.linalg.norm(b)
    assert found.sums.n_users == expected.sums.n_users
    assert found.sums.triple_weight == pytest.approx(expected.sums.triple_weight, rel=1e-9)
    np.testing.assert_allclose(found.sums.item_events, expected.sums.item_events, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_any_sequence_of_changes_equals_the_batch(name, seed, n_changes):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.4, size=(120, 30)).astype(float)
    anchor = anchor_of(sparse.csr_array(X), name)
    present = X * (rng.random(120) < 0.5)[:, None]
    moments = AnchoredMoments.of(sparse.csr_array(present), anchor)
    for _ in range(n_changes):
        users = rng.choice(120, size=rng.integers(1, 40), replace=False)
        new = rng.poisson(0.4, size=(len(users), 30)) * (rng.random(len(users)) < 0.7)[:, None]
        moments = moments.update(
            sparse.csr_array(present[users]), sparse.csr_array(new.astype(float))
        )
        present[users] = new
    assert_same_moments(moments, AnchoredMoments.of(sparse.csr_array(present), anchor))


@pytest.mark.parametrize("name", NAMES)
def test_forgetting_a_user_equals_never_having_seen_them(counts, name):
    anchor = anchor_of(counts, name)
    empty = sparse.csr_array((1, counts.shape[1]))
    forgotten = AnchoredMoments.of(counts, anchor).update(counts[:1], empty)
    assert_same_moments(forgotten, AnchoredMoments.of(counts[1:], anchor))


@pytest.mark.parametrize("name", NAMES)
def test_whitening_inside_the_span_is_exact(counts, name):
    anchor = anchor_of(counts, name)
    moments = AnchoredMoments.of(counts, anchor)
    whitening = whiten_in_span(moments, K)
    T = tensor_in_span(moments, whitening)
    M2 = PairMoments.of(counts, moments.sums, anchor.estimator)
    W = anchor.basis @ whitening.factors
    np.testing.assert_allclose(W.T @ M2.apply(W), np.eye(K), atol=1e-9)
    direct = triple_sums(counts, W * anchor.item_scale[:, None], anchor.estimator)
    np.testing.assert_allclose(T, direct / moments.sums.triple_weight, rtol=1e-8, atol=1e-10)


def test_classes_found_after_updates_are_those_of_a_full_rebuild(counts):
    old, new = counts[:3000], counts
    anchor = anchor_of(new, "unbiased")
    late = AnchoredMoments.of(old, anchor).update(
        sparse.csr_array((3000, new.shape[1])), new[3000:]
    )
    T_late, T_full = (
        tensor_in_span(moments, whiten_in_span(moments, K))
        for moments in (late, AnchoredMoments.of(new, anchor))
    )
    rng = np.random.default_rng
    np.testing.assert_allclose(
        decompose(T_late, rng(0)).lambdas, decompose(T_full, rng(0)).lambdas, rtol=1e-7
    )


def test_capture_is_one_for_the_right_span_and_less_for_another(counts, rng):
    anchor = anchor_of(counts, "balanced")
    good = AnchoredMoments.of(counts, anchor).subspace_capture(counts, K, rng)
    assert good == pytest.approx(1.0, abs=1e-6)
    random_basis = np.linalg.qr(rng.standard_normal((counts.shape[1], 13)))[0]
    poor_anchor = Anchor(random_basis, anchor.item_scale, anchor.estimator)
    poor = AnchoredMoments.of(counts, poor_anchor).subspace_capture(counts, K, rng)
    assert poor < 0.5


def test_capture_sees_users_who_share_no_item_with_the_span():
    _, old = simulate(1500, 700, K, items_per_user=12, seed=1)
    _, new = simulate(1500, 700, K, items_per_user=12, seed=2)
    together = sparse.csr_array(sparse.block_diag([old, new], format="csr", dtype=float))
    anchor = extended(anchor_of(old.astype(float), "paper"), 1400)
    moments = AnchoredMoments.of(together, anchor)
    assert not anchor.basis[700:].any()
    found = moments.subspace_capture(together, K, np.random.default_rng(0))
    M2 = PairMoments.of(together, moments.sums, anchor.estimator)
    top = np.linalg.eigvalsh((M2.normalised.T @ M2.normalised).toarray())[::-1][:K]
    held = np.linalg.eigvalsh(moments.pairs / moments.sums.pair_weight)[::-1][:K]
    assert found == pytest.approx(held.sum() / top.sum(), abs=0.03)
    assert found < 0.9


def test_single_precision_differs_by_its_rounding_alone(counts):
    double = anchor_of(counts, "balanced")
    single = replace(double, basis=double.basis.astype(np.float32))
    one, two = (AnchoredMoments.of(counts[:3000], anchor) for anchor in (single, double))
    one, two = (moments.update(counts[:2000], 2 * counts[3000:5000]) for moments in (one, two))
    for name in ("pairs", "triples"):
        a, b = getattr(one, name), getattr(two, name)
        assert a.dtype == np.float64
        assert 0 < np.linalg.norm(a - b) <= 1e-6 * np.linalg.norm(b)


def test_rows_of_other_items_are_refused(counts):
    anchor = anchor_of(counts, "balanced")
    with pytest.raises(InvalidInteractions, match="300 items but the rows have 7"):
        AnchoredMoments.of(sparse.csr_array((2, 7)), anchor)


def test_nobody_left_is_an_error(counts):
    anchor = anchor_of(counts, "balanced")
    nobody = AnchoredMoments.of(sparse.csr_array((1, counts.shape[1])), anchor)
    with pytest.raises(InvalidInteractions, match="3 events"):
        whiten_in_span(nobody, K)
