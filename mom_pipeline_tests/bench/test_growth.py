"""Growth is measured for every part of the users, and the parts are data sets of their own."""

import numpy as np
import pytest

from mom_pipeline.bench.data import clustered_interactions
from mom_pipeline.bench.growth import first_part, run_growth
from mom_pipeline.engine import write_shards


def test_growth_measures_every_part_of_the_users() -> None:
    result = run_growth(0.0004, n_components=4, eighths=(1, 8))
    first, last = result["rows"]
    assert (last["users"], last["interactions"]) == (4_000, 22_800)
    assert first["users"] == pytest.approx(500, rel=0.1)
    for row in (first, last):
        assert row["seconds"] >= sum(row["stages"].values())
        assert row["peak_gigabytes"] > 0.01
    ratio = last["seconds"] / first["seconds"]
    assert last["multiple"] == pytest.approx(ratio)
    assert result["slope"] == pytest.approx(np.log(ratio) / np.log(last["users"] / first["users"]))


def test_the_first_shards_are_a_data_set_of_their_own(tmp_path) -> None:
    X = clustered_interactions(800, 200, 6_400, np.random.default_rng(0))
    shards = write_shards(X, str(tmp_path), n_shards=8)
    half = first_part(shards, 0.5)
    assert len(half.entries) == 4
    assert half.shape == (sum(entry.n_users for entry in shards.entries[:4]), 200)
