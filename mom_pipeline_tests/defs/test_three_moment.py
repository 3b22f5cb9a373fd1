"""`model.ranking = "three-moment"` inside the pipeline: moments by day, pairs from all rows."""

from collections.abc import Iterator, Mapping

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.core.ranking import RankingWeights
from mom_pipeline.core.types import Array
from mom_pipeline.storage.dictionaries import ids_by_position

from .conftest import N_DAYS, Pipeline, day


@pytest.fixture(scope="module")
def ranked(
    tmp_path_factory: pytest.TempPathFactory, log_files: Mapping[str, bytes]
) -> Iterator[Pipeline]:
    with dg.instance_for_test() as instance:
        pipeline = Pipeline(tmp_path_factory.mktemp("three_moment"), instance)
        pipeline.configure("[model]\n", '[model]\nranking = "three-moment"\n')
        pipeline.deliver(log_files)
        pipeline.run(1, N_DAYS)
        yield pipeline


def scaled_to_best(scores: Array, unseen: Array) -> Array:
    best = np.where(unseen, scores, -np.inf).max(axis=1, keepdims=True)
    return scores / np.where(best > 0, best, 1)  # all of a history may be new since the anchor


def brute_force(X: Array, basis: Array, scale: Array) -> Array:
    """Pairs and their low-pass part with dense matrices, straight from the formulas."""
    w, users = RankingWeights(), np.maximum((X > 0).sum(axis=0), 1)
    assert w.popularity == w.classes == 0
    G = X.T @ (X / np.maximum(X.sum(axis=1), 1)[:, None])
    pairs = X @ np.diag(users**-w.history_exponent) @ G @ np.diag(users**-w.candidate_exponent)
    low_pass = X @ np.diag(scale) @ basis @ basis.T @ np.diag(1 / scale)
    taking_part = X.any(axis=1)
    X, parts = X[taking_part], (pairs[taking_part], low_pass[taking_part])
    total = np.full((len(taking_part), X.shape[1]), np.nan)
    total[taking_part] = w.pairs * scaled_to_best(parts[0], X == 0)
    total[taking_part] += w.low_pass * scaled_to_best(parts[1], X == 0)
    return total


def test_the_moments_are_incremental_and_the_lists_say_what_is_not(ranked: Pipeline):
    assert [ranked.mode(n) for n in range(2, N_DAYS + 1)] == ["incremental"] * (N_DAYS - 1)
    said = ranked.metadata("recommendations", N_DAYS)["ranking"]
    assert said.startswith(f"three-moment: pairs counted in full from all rows of {day(N_DAYS)}")


def test_the_lists_are_the_best_scores(ranked: Pipeline):
    X = ranked.state.matrix(day(N_DAYS))[0].toarray()
    anchor = ranked.state.moments(day(N_DAYS))[0].moments.anchor
    scores = np.where(X > 0, -np.inf, brute_force(X, anchor.basis, anchor.item_scale))
    with ranked.warehouse.connect() as connection:
        users, items = (
            {id_: n for n, id_ in enumerate(ids_by_position(connection, kind))}
            for kind in ("user", "item")
        )
    rows = ranked.query(
        "SELECT user_id, rank, item_id, score FROM recommendations "
        f"WHERE day = '{day(N_DAYS)}' ORDER BY user_id, rank"
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
