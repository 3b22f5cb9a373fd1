import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.tuning.nested import NestedMoments, sizes

N, D, K = 1500, 60, 4


@pytest.fixture(scope="module")
def data():
    return simulate(N, D, K, items_per_user=10, seed=2)[1]


@pytest.mark.parametrize("estimator", ["balanced", "unbiased", "paper"])
def test_a_smaller_model_is_a_corner_of_the_larger_one(data, estimator):
    nested = NestedMoments.from_users(UsersInMemory(data), estimator, "counts", 9, seed=0)
    for k in (2, 4, 9):
        alone = MethodOfMoments(k, estimator, ranking="components", rows="counts", seed=0).fit(data)
        nested_model = nested.model(k, Personalization())
        np.testing.assert_allclose(nested_model.item_probs, alone.item_probs, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(nested_model.weights, alone.weights, rtol=1e-6)


def test_which_k_are_tried():
    assert list(sizes(60, 1500, 5)) == [4, 5, 8, 16, 32]
    assert list(sizes(10, 1500, 5)) == [4, 5, 8]
    assert list(sizes(60, 1500, 5, [3, 7])) == [3, 5, 7]
    assert list(sizes(2, 3, 5)) == []
