"""Sums through an anchor: whatever the order of changes, the sums over what is there."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.moments.anchored import AnchoredSums, second_moment_times
from mom_pipeline.core.moments.days import MomentSettings, fix_anchor, operator
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory, in_first_half
from mom_pipeline_tests.core.conftest import assert_same_sums

NAMES = ["paper", "unbiased", "balanced"]
K = 5


def anchor_of(X, name):
    moments = MomentSettings(Estimator.from_name(name), K, K + 8, tol=1e-12, max_passes=80)
    return fix_anchor(UsersInMemory(X), moments)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_any_sequence_of_changes_equals_the_batch(name, seed, n_changes):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.4, size=(120, 30)).astype(float)
    anchor = anchor_of(sparse.csr_array(X), name)
    half = in_first_half(np.arange(120))
    present = X * (rng.random(120) < 0.5)[:, None]
    sums = AnchoredSums.from_rows(sparse.csr_array(present), anchor, in_half=half)
    for _ in range(n_changes):
        users = rng.choice(120, size=rng.integers(1, 40), replace=False)
        new = rng.poisson(0.4, size=(len(users), 30)) * (rng.random(len(users)) < 0.7)[:, None]
        sums = sums.update(
            sparse.csr_array(present[users]),
            sparse.csr_array(new.astype(float)),
            anchor,
            in_half=np.concatenate([half[users], half[users]]),
        )
        present[users] = new
    expected = AnchoredSums.from_rows(sparse.csr_array(present), anchor, in_half=half)
    assert_same_sums(sums, expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_second_moment_through_the_basis_is_that_of_the_rows(counts, name):
    anchor = anchor_of(counts, name)
    sums = AnchoredSums.from_rows(counts, anchor)
    M2_U = operator(UsersInMemory(counts), anchor, sums.first).apply(anchor.basis)
    seen = second_moment_times(anchor, sums, np.eye(anchor.basis.shape[1]))
    np.testing.assert_allclose(seen, M2_U, rtol=1e-9, atol=1e-12 * np.abs(M2_U).max())
    H = sums.pairs / sums.first.pair_weight
    np.testing.assert_allclose(anchor.basis.T @ seen, H, atol=1e-9 * np.abs(H).max())


def test_shards_add_up_and_stored_sums_are_read_back(counts):
    anchor, half = anchor_of(counts, "unbiased"), in_first_half(np.arange(counts.shape[0]))
    parts = [slice(0, 2500), slice(2500, None)]
    one, two = (AnchoredSums.from_rows(counts[p], anchor, in_half=half[p]) for p in parts)
    whole = AnchoredSums.from_rows(counts, anchor, in_half=half)
    assert_same_sums(one + two, whole)
    assert_same_sums(whole - two, one)
    assert_same_sums(AnchoredSums.from_arrays(whole.as_arrays()), whole, rtol=0)


def test_single_precision_differs_by_its_rounding_alone(counts):
    double = anchor_of(counts, "balanced")
    single = replace(double, basis=double.basis.astype(np.float32))
    one, two = (
        AnchoredSums.from_rows(counts[:3000], anchor).update(
            counts[:2000], 2 * counts[3000:5000], anchor
        )
        for anchor in (single, double)
    )
    for name in ("pairs", "triples"):
        a, b = getattr(one, name), getattr(two, name)
        assert a.dtype == np.float64
        assert 0 < np.linalg.norm(a - b) <= 1e-6 * np.linalg.norm(b)


def test_rows_of_other_items_are_refused(counts):
    with pytest.raises(InvalidInteractions, match="300 items but the rows have 7"):
        AnchoredSums.from_rows(sparse.csr_array((2, 7)), anchor_of(counts, "balanced"))
