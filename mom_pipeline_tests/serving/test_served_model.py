"""Versions of the registry without one user."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.core.fitted import PairRanking
from mom_pipeline.core.ranking.low_pass import LowPass
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


def test_the_rows_behind_the_pairs_lose_the_history(make):
    served = make(1)
    X = sparse.csr_array(sparse.vstack([np.zeros((3, 30)), served.histories], format="csr"))
    low_pass = LowPass(np.zeros((30, 1)), np.ones(30), np.ones(1))
    ranking = PairRanking(X, low_pass, RankingWeights())
    served = replace(served, model=replace(served.model, pair_ranking=ranking))
    left = served.without_user(USER)
    rows = left.model.pair_ranking.interactions
    rows.check_format(full_check=True)
    own = served.histories[[117]].toarray().ravel()
    assert rows.shape == X.shape
    np.testing.assert_allclose(X.sum(axis=0) - rows.sum(axis=0), own)
    no_rows = sparse.csr_array(X.shape)
    other = replace(served.model, pair_ranking=replace(ranking, interactions=no_rows))
    with pytest.raises(DamagedModel):
        replace(served, model=other).without_user(USER)


def test_no_registry_is_no_problem(registry):
    assert forget_in_models(registry, USER) == 0
    assert not registry.root.exists()
