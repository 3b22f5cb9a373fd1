"""Old days leave the disk and the table of lists; the pipeline goes on, and can go back."""

import numpy as np
import pytest

from mom_pipeline.defs.freshness import freshness

from .conftest import N_DAYS, SERVED, Pipeline, day

KEPT = 4
NEXT = N_DAYS + 1
_LISTS = "SELECT DISTINCT day FROM recommendations ORDER BY day"
_METRICS = "SELECT * FROM evaluation_metrics ORDER BY ALL"


@pytest.fixture
def retaining(copied: Pipeline) -> Pipeline:
    """The finished folder after the gate of its last day ran once more, with retention."""
    copied.configure("[evaluation]\n", f"[artifacts]\nretention_days = {KEPT}\n[evaluation]\n")
    copied.run(N_DAYS, only=["promotion"])
    return copied


def statuses(pipeline: Pipeline) -> dict[int, str]:
    found = freshness(pipeline.warehouse, pipeline.state)
    return {n: entry.status for n, entry in enumerate(found, start=1)}


def stored(pipeline: Pipeline) -> list[int]:
    return [(d - day(1)).days + 1 for d in pipeline.state.artifacts.days("decomposition")]


def listed(pipeline: Pipeline) -> list[int]:
    return [(d - day(1)).days + 1 for (d,) in pipeline.query(_LISTS)]


def test_arrays_and_lists_go_and_metrics_stay(retaining: Pipeline, backfilled: Pipeline):
    assert stored(retaining) == listed(retaining) == [2, 3, 4, 5]
    assert listed(backfilled) == [1, 2, 3, 4, 5]
    assert retaining.query(_METRICS) == backfilled.query(_METRICS)
    assert statuses(retaining) == {1: "expired", 2: "fresh", 3: "fresh", 4: "fresh", 5: "fresh"}


def test_the_next_day_builds_on_what_is_kept(retaining: Pipeline, log_files):
    newest = log_files[f"{day(N_DAYS)}.csv.gz"]
    retaining.deliver({f"{day(NEXT)}.csv.gz": newest})
    assert statuses(retaining)[NEXT] == "missing"
    retaining.run(NEXT)
    assert retaining.mode(NEXT) == "incremental"
    assert stored(retaining) == listed(retaining) == [3, 4, 5, 6]
    assert set(statuses(retaining).values()) == {"expired", "fresh"}


def test_an_expired_day_can_be_made_again(retaining: Pipeline, backfilled: Pipeline):
    retaining.run(1, only=SERVED)
    assert statuses(retaining)[1] == "fresh"
    assert listed(retaining) == [1, 2, 3, 4, 5]
    again, first = (p.state.model(day(1))[0] for p in (retaining, backfilled))
    np.testing.assert_allclose(again.item_probs, first.item_probs, rtol=1e-9)
    retaining.run(N_DAYS, only=["promotion"])
    assert statuses(retaining)[1] == "expired"
    assert listed(retaining) == [2, 3, 4, 5]


def test_late_data_of_an_expired_day_ask_for_it(retaining: Pipeline):
    late = b"user,item,timestamp\nuser-00001,jazz-001,2024-03-01T10:00:00\n"
    retaining.deliver({"2024-03-01-late.csv": late})
    assert set(statuses(retaining).values()) == {"stale"}
    retaining.run(1, N_DAYS, only=SERVED)
    assert statuses(retaining) == {1: "expired", 2: "fresh", 3: "fresh", 4: "fresh", 5: "fresh"}


def test_a_list_that_is_still_in_use_stays(copied: Pipeline, backfilled: Pipeline):
    """With `refresh_drift`, users who did not change have their list from an earlier day."""
    copied.configure("[serving]\n", "[serving]\nrefresh_drift = 1.0\n")
    lists = ("user_personalization", "recommendations")
    copied.run(2, N_DAYS, only=lists)
    users = "SELECT count(DISTINCT user_id) FROM recommendations"
    before = copied.query(users)
    copied.configure("[evaluation]\n", f"[artifacts]\nretention_days = {KEPT}\n[evaluation]\n")
    copied.run(N_DAYS, only=(*lists, "evaluation_metrics", "promotion"))
    assert stored(copied) == [2, 3, 4, 5]
    assert copied.query(users) == before
    twice = "SELECT user_id FROM recommendations WHERE day <= '2024-03-02' GROUP BY user_id HAVING"
    assert copied.query(f"{twice} count(DISTINCT day) > 1") == []
