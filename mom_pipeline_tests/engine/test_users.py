"""Fits and days over shards are those in memory; results are added in one order."""

import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.moments.days import MomentSettings, advance
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.types import Csr
from mom_pipeline.engine import EngineFailed, LocalEngine, ShardedUsers, Shards, write_shards
from mom_pipeline.engine.shards import ShardRows
from mom_pipeline.engine.users import add_in_order, add_tree
from mom_pipeline_tests.engine.conftest import K


@pytest.mark.parametrize("estimator", ["paper", "unbiased", "balanced"])
def test_a_fit_over_shards_is_the_fit_in_memory(
    interactions: Csr, shards: Shards, estimator
) -> None:
    whole = MethodOfMoments(K, estimator, ranking="components").fit(interactions)
    parts = MethodOfMoments(K, estimator, ranking="components").fit_users(
        ShardedUsers(LocalEngine(), shards)
    )
    np.testing.assert_allclose(parts.item_probs, whole.item_probs, atol=1e-9)
    np.testing.assert_allclose(parts.weights, whole.weights, atol=1e-9)
    assert parts.diagnostics["n_users"] == whole.diagnostics["n_users"]


def test_few_items_are_decomposed_directly(interactions: Csr, tmp_path) -> None:
    X = interactions[:, :300]
    users = ShardedUsers(LocalEngine(), write_shards(X, str(tmp_path), n_shards=3))
    parts = MethodOfMoments(K, "unbiased", ranking="components").fit_users(users)
    whole = MethodOfMoments(K, "unbiased", ranking="components").fit(X)
    np.testing.assert_allclose(parts.item_probs, whole.item_probs, atol=1e-9)


@pytest.mark.parametrize("estimator", ["unbiased", "balanced"])
def test_a_day_rebuilt_over_shards_is_the_day(interactions: Csr, shards: Shards, estimator) -> None:
    settings = MomentSettings(Estimator.from_name(estimator), K, K + 8, n_frequent=20, halves=True)
    whole = advance(interactions, None, "", settings)
    parts = advance(interactions, None, "", settings, lambda X: ShardedUsers(LocalEngine(), shards))
    theirs = whole.sums.as_arrays()
    assert {"item_pairs", "half_triples", "frequent_pairs"} <= theirs.keys()
    for name, array in parts.sums.as_arrays().items():
        np.testing.assert_allclose(array, theirs[name], atol=1e-9, err_msg=name)


def test_three_moments_need_the_rows_in_memory(shards: Shards) -> None:
    with pytest.raises(InvalidSetting, match="needs all rows in memory"):
        MethodOfMoments(K).fit_users(ShardedUsers(LocalEngine(), shards))


def test_lack_of_memory_names_the_shard(shards: Shards) -> None:
    def greedy(rows: ShardRows) -> int:
        return int(np.empty(2**57).size)

    with pytest.raises(EngineFailed, match=f"{shards.entries[0].name} of .* users .* smaller"):
        LocalEngine().add_up(greedy, shards)


class Term:
    """Writes down how it was added."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: "Term") -> "Term":
        return Term(f"({self.text} {other.text})")


def terms(n: int) -> list[Term]:
    return [Term(str(i)) for i in range(n)]


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, "0"),
        (2, "(0 1)"),
        (3, "((0 1) 2)"),
        (5, "(((0 1) (2 3)) 4)"),
        (6, "(((0 1) (2 3)) (4 5))"),
        (7, "(((0 1) (2 3)) ((4 5) 6))"),
    ],
)
def test_the_order_of_addition(n: int, expected: str) -> None:
    assert add_tree(terms(n), lambda a, b: a + b).text == expected


@pytest.mark.parametrize("n", range(1, 35))
def test_adding_as_they_come_is_the_same_tree(n: int) -> None:
    assert add_in_order(terms(n)).text == add_tree(terms(n), lambda a, b: a + b).text


@pytest.mark.parametrize("n", range(1, 12))
def test_no_result_is_written_over(n: int) -> None:
    results = [np.full(3, float(i)) for i in range(n)]
    np.testing.assert_array_equal(add_in_order(results), sum(range(n)))
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, float(i))
