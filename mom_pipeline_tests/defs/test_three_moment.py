"""`model.ranking = "three-moment"` inside the pipeline: moments and pairs by day."""

from collections.abc import Iterator, Mapping

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.warehouse.matrix import ids_by_position

from .conftest import N_DAYS, SERVED, Pipeline, day


@pytest.fixture(scope="module")
def ranked(
    tmp_path_factory: pytest.TempPathFactory, log_files: Mapping[str, bytes]
) -> Iterator[Pipeline]:
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = Pipeline(tmp_path_factory.mktemp("three_moment"), instance)
        pipeline.configure('ranking = "components"', 'ranking = "three-moment"')
        pipeline.deliver(log_files)
        pipeline.run(1, N_DAYS, only=SERVED)
        yield pipeline


def test_the_moments_and_the_pairs_are_incremental(ranked: Pipeline):
    modes = [ranked.mode(n) for n in range(2, N_DAYS + 1)]
    assert modes.count("incremental") > N_DAYS / 2
    assert all("pairs changed since" in mode for mode in modes if mode != "incremental")
    assert ranked.mode(N_DAYS) == "incremental"


def test_the_lists_are_the_best_scores(ranked: Pipeline):
    day_rows = ranked.days.rows(day(N_DAYS))
    rows_of_day, model = day_rows.X, ranked.days.model(day(N_DAYS))
    assert model.pair_ranking is not None
    counted = PairRanking.from_users(UsersInMemory(rows_of_day, day_rows.last_days))
    for part in ("counts", "days", "ease"):
        ours, theirs = (getattr(own, part).as_arrays() for own in (model.pair_ranking, counted))
        for name, array in ours.items():
            np.testing.assert_array_equal(array, theirs[name], err_msg=name)
    X = rows_of_day.toarray()
    of_day = model.scores(rows_of_day, last_days=day_rows.last_days)
    scores = np.where(X > 0, -np.inf, of_day)
    by_class = np.where(X > 0, -np.inf, model.scores(rows_of_day, "components"))
    assert (scores.argmax(axis=1) != by_class.argmax(axis=1)).mean() > 0.1
    with ranked.warehouse.connect() as connection:
        users, items = (
            {id_: n for n, id_ in enumerate(ids_by_position(connection, kind))}
            for kind in ("user", "item")
        )
    rows = ranked.query(
        "SELECT user_id, rank, item_id, score FROM recommendations ORDER BY user_id, rank"
    )
    n = ranked.settings.serving.list_length
    assert len(rows) == n * X.any(axis=1).sum()
    for user, rank, item, score in rows:
        own = scores[users[user]]
        assert score == pytest.approx(own[items[item]], rel=1e-4)
        assert score == pytest.approx(np.sort(own)[-rank], rel=1e-4)


def test_it_beats_popularity(ranked: Pipeline):
    found = dict(
        ranked.query(
            "SELECT ranking, recall_at_k FROM evaluation_metrics "
            f"WHERE day = '{day(N_DAYS)}' AND cutoff = 10"
        )
    )
    assert found["three-moment"] > 1.1 * found["popularity"]
