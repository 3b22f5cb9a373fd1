"""The bench of the pipeline does the same two days with and without Dagster."""

import pytest

from mom_pipeline.bench.pipeline import FIRST, SECOND, run_bare, run_pipeline, write_folder
from mom_pipeline.definitions import ASSETS
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse


def test_both_sides_name_every_asset() -> None:
    result = run_pipeline(200, 40, 1_600, 3)
    assert [day["day"] for day in result["days"]] == [str(FIRST), str(SECOND)]
    for day in result["days"]:
        names = [asset["asset"] for asset in day["assets"]]
        assert names == [asset.key.to_user_string() for asset in ASSETS]
        bare = {asset["asset"]: asset["bare"] for asset in day["assets"]}
        assert day["bare_seconds"] == pytest.approx(sum(bare.values()))
        assert {"raw_logs", "interaction_matrix", "decomposition"} <= {n for n in bare if bare[n]}
        assert day["dagster_seconds"] > sum(asset["dagster"] for asset in day["assets"])
        allowed = 1.3 * day["bare_seconds"] + 0.5 * len(ASSETS)
        assert day["allowed_seconds"] == pytest.approx(allowed)


def test_the_bare_days_really_take_place(tmp_path) -> None:
    write_folder(tmp_path / "data", 200, 40, 1_600, 3, seed=1)
    assert list(run_bare(tmp_path / "data")) == [str(FIRST), str(SECOND)]
    with Warehouse(load_settings(tmp_path / "data", {})).connect() as connection:
        events = connection.execute("SELECT count(*) FROM raw_logs").fetchone()
        listed = connection.execute(
            "SELECT day, count(DISTINCT user_id) FROM recommendations GROUP BY day ORDER BY day"
        ).fetchall()
    assert events == (1_600,)
    assert [(day, n > 150) for day, n in listed] == [(FIRST, True), (SECOND, True)]
