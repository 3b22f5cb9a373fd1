"""The asset `groups`: who is in which, what they are called, and what happened to them."""

import dagster as dg
import numpy as np

from mom_pipeline.groups.names import keep_names, kept_names, renamed

from .conftest import N_DAYS, Pipeline, day


def shown_of(pipeline: Pipeline) -> list[dict[str, object]]:
    """What Dagster holds of the asset, by day."""
    found = pipeline.instance.fetch_materializations(dg.AssetKey("groups"), limit=100).records
    texts = [record.asset_materialization.metadata for record in reversed(found)]
    return [{name: value.value for name, value in metadata.items()} for metadata in texts]


def test_a_day_has_the_group_of_everybody(backfilled: Pipeline):
    days = backfilled.days
    P = days.arrays("user_personalization", day(N_DAYS))["memberships"]
    group_of = days.arrays("groups", day(N_DAYS))["group_of"]
    known = np.diff(days.rows(day(N_DAYS)).X.indptr) > 0
    assert (group_of[known] == P[known].argmax(axis=1)).all()
    assert (group_of[~known] == -1).all()
    facts = days.made["groups", day(N_DAYS)].facts
    assert facts["people"] == np.bincount(group_of[known], minlength=3).tolist()
    last = shown_of(backfilled)[-1]
    assert (last["groups"], last["people"]) == (3, int(known.sum()))
    assert 1 <= last["as_many_even_groups"] <= 3
    assert 0 <= last["moved"] <= 1


def test_groups_have_names_on_the_newest_day_and_no_person_is_named(backfilled: Pipeline):
    names = kept_names(backfilled.settings)
    assert len(names) == 3
    shown = shown_of(backfilled)
    assert shown[-1]["names"] == ", ".join(each.name for each in names)
    assert all("names" not in metadata for metadata in shown[:-1])
    users = backfilled.query("SELECT DISTINCT user_id FROM raw_logs")
    assert not any(user in str(shown) for (user,) in users)


def test_what_a_person_named_keeps_its_name_on_the_next_days_and_by_a_rebuild(copied: Pipeline):
    names = kept_names(copied.settings)
    keep_names(copied.settings, renamed(names, names[1].name, "Night owls"))
    for full in (False, True):
        copied.run(N_DAYS, full=full)
        assert [n.name for n in kept_names(copied.settings)] == [
            names[0].name,
            "Night owls",
            names[2].name,
        ]
    older = kept_names(copied.settings)
    copied.run(2)  # a day of the past names nothing
    assert kept_names(copied.settings) == older
