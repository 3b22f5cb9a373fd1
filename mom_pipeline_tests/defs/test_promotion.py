"""The model in use, over real files: every day's version, and when it takes over."""

from dataclasses import replace

import numpy as np
import pytest

from mom_pipeline.serving.gate import Gate, evaluated_day
from mom_pipeline.serving.registry import PERSON, POINTER, VERSIONS, ModelRegistry
from mom_pipeline.serving.served_model import MODEL
from mom_pipeline.warehouse.matrix import delivered_pairs, ids_by_position

from .conftest import N_DAYS, SERVED, Pipeline, day

PROMOTION = ["promotion"]
# From the settings of a day to its gate.
AFTER_ROWS = SERVED[2:-2]
# Everybody's list is of popular items: a loss.
WORSE = ("n_components = 3", "n_components = 1")


def registry_of(pipeline: Pipeline) -> ModelRegistry:
    return ModelRegistry(pipeline.settings.models_dir)


def test_the_first_model_beats_popularity_and_is_served(backfilled: Pipeline):
    registry, shown = registry_of(backfilled), backfilled.metadata("promotion", N_DAYS)
    assert shown["promoted"]
    assert shown["champion"] == shown["model_version"] == registry.champion_version()
    assert shown["decision"].startswith("passed as the first model: MAP ")
    assert "not shown to beat popularity" not in shown["decision"]
    assert 0 < shown["map_low"] <= shown["map_difference"] <= shown["map_high"]
    assert shown["map_difference"] == pytest.approx(shown["map"] - shown["popularity_map"])
    assert registry.history()[-1].reason == shown["decision"]


def test_every_day_is_a_version_and_the_last_one_goes_through_the_gate(backfilled: Pipeline):
    registry = registry_of(backfilled)
    assert [name[:10] for name in registry.names()] == [str(day(n + 1)) for n in range(N_DAYS)]
    assert [change.version for change in registry.history()] == registry.names()[-1:]
    shown = backfilled.metadata("promotion", 2)
    assert shown["model_version"] == registry.names()[1]
    assert "only the newest usual day" in shown["note"]


def test_the_figures_are_those_of_the_evaluation(backfilled: Pipeline):
    shown = backfilled.metadata("promotion", N_DAYS)
    rows = backfilled.query(
        f"SELECT map_at_k, recall_at_k, users FROM evaluation_metrics "
        f"WHERE day = '{day(N_DAYS)}' AND cutoff = 20 AND ranking = 'components'"
    )
    assert rows == [pytest.approx((shown["map"], shown["recall"], shown["users"]), rel=1e-12)]


def test_the_version_holds_the_model_and_everybody_with_a_history(backfilled: Pipeline):
    champion, days = registry_of(backfilled).champion(), backfilled.days
    rows, model = days.rows(day(N_DAYS)), days.model(day(N_DAYS))
    X = rows.X
    np.testing.assert_array_equal(champion.model.item_probs, model.item_probs)
    assert champion.manifest.parents == {
        "interaction_matrix": rows.version,
        "decomposition": days.made["decomposition", day(N_DAYS)].version,
    }
    assert champion.manifest.settings["n_components"] == 3
    pairs = backfilled.query("SELECT DISTINCT user_id, item_id FROM raw_logs")
    taken = {user: {i for u, i in pairs if u == user} for user, _ in pairs[:20]}
    assert len(champion.user_ids) == (np.diff(X.indptr) > 0).sum()
    for user, items in taken.items():
        place = champion.user_positions[user]
        own = {champion.item_ids[y] for y in champion.histories[[place]].indices}
        assert own
        assert own <= items


def test_the_same_day_again_changes_nothing(copied: Pipeline):
    before = registry_of(copied).history()
    copied.run(N_DAYS, only=PROMOTION)
    assert registry_of(copied).history() == before
    assert copied.metadata("promotion", N_DAYS)["decision"] == "it is the champion already"


def test_a_day_later_the_same_settings_take_over(copied: Pipeline):
    registry = registry_of(copied)
    (registry.root / POINTER).unlink()
    copied.run(N_DAYS - 1, only=PROMOTION)
    first = registry.champion_version()
    assert first.startswith(str(day(N_DAYS - 1)))
    copied.run(N_DAYS, only=PROMOTION)
    shown = copied.metadata("promotion", N_DAYS)
    assert shown["promoted"]
    assert "a new day of data" in shown["decision"]
    assert registry.rollback() == first


def test_what_a_person_put_in_use_stays_until_it_is_lifted(copied: Pipeline):
    registry = registry_of(copied)
    newest, chosen = registry.champion_version(), registry.names()[0]
    registry.promote(chosen, "the catalogue is new", by=PERSON)
    copied.run(N_DAYS, only=PROMOTION)
    decision = copied.metadata("promotion", N_DAYS)["decision"]
    assert f"a person put {chosen} in use" in decision
    assert "promote --auto" in decision
    assert registry.champion_version() == chosen
    assert registry.lift("enough seen") == chosen
    copied.run(N_DAYS, only=PROMOTION)
    assert registry.champion_version() == newest


def test_an_old_champion_answers_for_itself(copied: Pipeline):
    registry = registry_of(copied)
    (registry.root / POINTER).unlink()
    old = registry.names()[N_DAYS - 3]
    registry.promote(old, "the day of the backtest, so it is the model of the backtest")
    copied.configure("[model]\n", "[model]\nseed = 1\n")
    copied.run(N_DAYS - 2, N_DAYS, only=AFTER_ROWS)
    shown = copied.metadata("promotion", N_DAYS)
    assert registry.champion().manifest.day == str(day(N_DAYS))
    assert f"it and the model of {day(N_DAYS - 2)}" in shown["decision"]
    assert abs(shown["map_difference"]) < 0.05 * shown["map"]


def test_worse_settings_are_refused(copied: Pipeline):
    champion = registry_of(copied).champion_version()
    copied.configure(*WORSE)
    copied.run(N_DAYS - 2, N_DAYS, only=AFTER_ROWS)
    shown = copied.metadata("promotion", N_DAYS)
    assert not shown["promoted"]
    assert "its settings and the new ones" in shown["decision"]
    assert shown["map_low"] < 0
    assert shown["champion"] == champion == registry_of(copied).champion_version()
    assert len(registry_of(copied).names()) == N_DAYS + 3


def test_an_earlier_day_does_not_replace_a_later_one(copied: Pipeline):
    champion = registry_of(copied).champion_version()
    copied.run(N_DAYS - 1, only=PROMOTION)
    assert "of a later day" in copied.metadata("promotion", N_DAYS - 1)["decision"]
    assert registry_of(copied).champion_version() == champion


def test_the_first_day_is_in_use_at_once_and_unproven(copied: Pipeline):
    (registry_of(copied).root / POINTER).unlink()
    copied.run(1, only=PROMOTION)
    shown = copied.metadata("promotion", 1)
    assert shown["champion"] == shown["model_version"]
    assert "unproven" in shown["decision"]
    assert registry_of(copied).champion().manifest.metrics == {}


def test_other_settings_on_the_first_day_replace_what_is_unproven(copied: Pipeline):
    registry = registry_of(copied)
    (registry.root / POINTER).unlink()
    copied.run(1, only=PROMOTION)
    first = registry.champion_version()
    copied.configure("[model]\n", "[model]\nseed = 1\n")
    copied.run(1, only=AFTER_ROWS)
    assert "neither model has days" in copied.metadata("promotion", 1)["decision"]
    assert registry.champion_version() != first


def test_a_damaged_champion_is_replaced_by_a_good_model(copied: Pipeline):
    registry = registry_of(copied)
    other = registry.names()[0]
    registry.promote(other, "by hand")
    (registry.root / VERSIONS / other / MODEL).write_bytes(b"damaged")
    copied.run(N_DAYS, only=PROMOTION)
    assert "as the first model" in copied.metadata("promotion", N_DAYS)["decision"]
    assert registry.champion().manifest.day == str(day(N_DAYS))


def test_settings_of_the_gate(copied: Pipeline):
    registry = registry_of(copied)
    (registry.root / POINTER).unlink()
    copied.configure("keep_versions = 10", "enabled = false\nkeep_versions = 1")
    copied.run(N_DAYS - 1, only=PROMOTION)
    copied.run(N_DAYS, only=PROMOTION)
    assert registry.champion_version() is None
    assert "promotion.enabled is false" in copied.metadata("promotion", N_DAYS)["decision"]
    assert len(registry.names()) == 1


def gate_of(pipeline: Pipeline, until) -> Gate:
    with pipeline.warehouse.connect() as connection:
        items, users = (ids_by_position(connection, kind) for kind in ("item", "user"))
    later = delivered_pairs(pipeline.warehouse, evaluated_day(pipeline.days, until), until)
    return Gate(pipeline.days, registry_of(pipeline), until, items, users, later)


def test_erased_users_are_in_no_version(backfilled: Pipeline):
    gate = gate_of(backfilled, day(N_DAYS))
    X = backfilled.days.rows(day(N_DAYS)).X
    erased, present = np.flatnonzero(np.diff(X.indptr))[[3, 4]]
    gone, kept = gate.user_ids[erased], gate.user_ids[present]
    gate.user_ids[erased] = None
    served = gate.candidate()
    assert gone not in served.user_positions
    assert "None" not in served.user_positions
    assert len(served.user_ids) == (np.diff(X.indptr) > 0).sum() - 1
    row = served.histories[[served.user_positions[kept]]]
    assert (row != X[[present]]).nnz == 0


def test_a_champion_whose_items_have_other_positions(backfilled: Pipeline):
    """Positions may differ after days that came late: then its settings are fitted again."""
    gate = gate_of(backfilled, day(N_DAYS))
    old = gate_of(backfilled, evaluated_day(gate.days, gate.day)).candidate()
    order = np.random.default_rng(0).permutation(len(old.item_ids))
    model = replace(
        old.model,
        item_probs=old.model.item_probs[order],
        popularity=old.model.popularity[order],
    )
    moved, wrong = (
        gate.contest(champion, gate.backtest)
        for champion in (
            replace(old, model=model, item_ids=old.item_ids[order]),
            replace(old, model=model),
        )
    )
    assert "its settings and the new ones" in moved.how
    assert moved.rival_ap.mean() == pytest.approx(moved.challenger_ap.mean(), rel=0.05)
    assert "it and the model of" in wrong.how
    assert wrong.rival_ap.mean() < 0.7 * wrong.challenger_ap.mean()
