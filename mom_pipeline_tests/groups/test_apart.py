"""The map of groups."""

import numpy as np
import pytest

from mom_pipeline.groups.apart import bubbles


@pytest.mark.parametrize("K", [1, 2, 8, 100])
def test_no_group_covers_another_on_the_map(K):
    rng = np.random.default_rng(K)
    sizes = rng.dirichlet(np.full(K, 0.7))
    places = bubbles(rng.dirichlet(np.ones(300), K).T, sizes)
    xy, radius = places[:, :2], places[:, 2]
    assert (xy - radius[:, None]).min() > -1e-9
    assert (xy + radius[:, None]).max() < 1 + 1e-9
    apart = np.linalg.norm(xy[:, None] - xy, axis=2) + 9 * np.eye(K)
    assert (apart >= 0.99 * (radius[:, None] + radius)).all()
    assert (np.diff(radius[np.argsort(sizes)]) >= 0).all()
    assert (np.pi * radius**2).sum() > 0.3  # no empty map
