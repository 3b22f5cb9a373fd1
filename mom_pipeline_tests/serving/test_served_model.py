"""Versions of the registry without one user."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.core.moments.cooccurrences import Cooccurrences
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.serving.registry import forget_in_models

USER = "user 117"  # a part of no other id


def test_every_version_loses_the_user_and_the_champion_stays_in_use(registry, make):
    first, second = (registry.add(make(day)) for day in (1, 2))
    registry.promote(first, "test")
    without = registry.add(make(3, users=10))
    assert forget_in_models(registry, USER) == 2
    assert without in registry.names()
    assert not {first, second} & set(registry.names())
    served = registry.champion()
    assert served.manifest.day == "2024-03-01"
    assert USER not in served.user_positions
    before = make(1)
    for user in ("user 116", "user 118"):
        np.testing.assert_array_equal(
            served.histories[[served.user_positions[user]]].toarray(),
            before.histories[[before.user_positions[user]]].toarray(),
        )
    for path in registry.root.rglob("*.npz"):
        with np.load(path) as arrays:
            assert not any(USER.encode() in arrays[name].tobytes() for name in arrays.files)
    assert forget_in_models(registry, USER) == 0


def test_the_pairs_lose_the_history(make):
    served = make(1)
    X = sparse.csr_array(sparse.vstack([np.zeros((3, 30)), served.histories], format="csr"))
    low_pass = LowPass(np.zeros((30, 1)), np.ones(30), np.ones(1))
    ranking = PairRanking.from_users(UsersInMemory(X), low_pass, RankingWeights())
    served = replace(served, model=replace(served.model, pair_ranking=ranking))
    left = served.without_user(USER)
    others = np.delete(np.arange(X.shape[0]), 3 + 117)
    expected = Cooccurrences.from_rows(X[others], 1.0)
    for name, array in left.model.pair_ranking.counts.as_arrays().items():
        np.testing.assert_array_equal(array, expected.as_arrays()[name])
    no_pairs = replace(ranking, counts=ranking.counts.nothing())
    other = replace(served.model, pair_ranking=no_pairs)
    with pytest.raises(DamagedModel):
        replace(served, model=other).without_user(USER)


def test_an_item_that_nobody_else_has_loses_its_name_and_is_listed_no_more(make):
    served = make(1)
    X = served.histories.tolil()
    X[:, 7] = 0
    X[117, 7] = 1
    left = replace(served, histories=sparse.csr_array(X)).without_user(USER)
    assert (left.item_ids[7], left.model.candidates[7]) == ("", False)
    assert left.model.popularity.sum() == pytest.approx(1)
    assert (left.item_ids == "").sum() == (np.diff(left.histories.tocsc().indptr) == 0).sum()


def test_no_registry_is_no_problem(registry):
    assert forget_in_models(registry, USER) == 0
    assert not registry.root.exists()
