"""A day is fresh when all of it is there: also lists, metrics, version and page."""

from mom_pipeline.defs.freshness import WITHOUT_ARRAYS, days_behind, freshness

from .conftest import MODEL, N_DAYS, Pipeline, day, lines_of


def behind(pipeline: Pipeline) -> list[str]:
    return [entry.reason for entry in days_behind(freshness(pipeline.warehouse, pipeline.state))]


def test_a_run_that_ended_before_an_asset_left_its_day_stale(copied: Pipeline):
    last = day(N_DAYS)
    copied.deliver({f"{last}-late.csv": lines_of(last, "user-00001", "user-00002")})
    copied.run(N_DAYS, only=(*MODEL, "user_personalization"))
    for asset in WITHOUT_ARRAYS:
        assert behind(copied) == [f"{asset} of {last} was not finished with the present model"]
        copied.run(N_DAYS, only=[asset])
    assert behind(copied) == []


def test_a_warehouse_made_anew_has_nothing_finished(copied: Pipeline):
    copied.settings.warehouse_path.unlink()
    copied.run(1, N_DAYS, only=MODEL[:1])
    assert len(behind(copied)) == N_DAYS
    assert "recommendations of 2024-03-01 was not finished" in behind(copied)[0]
