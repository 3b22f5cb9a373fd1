"""Simulated logs have exactly the size that was asked for, and a structure to be found."""

import numpy as np
import pytest

from mom_pipeline.bench.data import ClusteredCatalogue, clustered_interactions


@pytest.mark.parametrize("size", [(300, 200, 2_400), (50, 1_000, 1_500), (40, 12, 60)])
def test_size_is_exact_and_nobody_is_empty(size: tuple[int, int, int]) -> None:
    n_users, n_items, n_pairs = size
    X = clustered_interactions(*size, np.random.default_rng(0), n_clusters=6)
    assert X.shape == (n_users, n_items)
    assert X.nnz == n_pairs
    assert set(X.data) == {1.0}
    assert X.has_canonical_format
    assert np.diff(X.indptr).min() >= 1


def test_every_item_is_taken_where_pairs_suffice() -> None:
    X = clustered_interactions(2_000, 1_500, 12_000, np.random.default_rng(1))
    assert np.bincount(X.indices, minlength=1_500).min() >= 1


def test_popularity_and_lengths_have_heavy_tails() -> None:
    X = clustered_interactions(5_000, 2_000, 50_000, np.random.default_rng(2))
    taken, lengths = np.bincount(X.indices), np.diff(X.indptr)
    assert taken.max() > 10 * np.median(taken)
    assert lengths.max() > 5 * np.median(lengths)


def test_users_keep_to_their_tastes() -> None:
    catalogue = ClusteredCatalogue.random(1_000, 10, np.random.default_rng(3))
    X = catalogue.interactions(500, 5_000, np.random.default_rng(4))
    clusters = np.searchsorted(catalogue.edges, X.indices, side="right") - 1
    largest = [
        np.bincount(clusters[X.indptr[u] : X.indptr[u + 1]]).max() / (X.indptr[u + 1] - X.indptr[u])
        for u in range(500)
        if X.indptr[u + 1] - X.indptr[u] >= 10
    ]
    assert np.mean(largest) > 0.5


def test_more_pairs_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot take"):
        clustered_interactions(10, 8, 80, np.random.default_rng(0), n_clusters=2)
