"""The asset `groups`: who is in which, what they are called, and what happened to them."""

import gzip
from contextlib import suppress
from dataclasses import replace

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.errors import LogFileError
from mom_pipeline.groups.changes import WARM_UP
from mom_pipeline.groups.names import keep_groups, kept_groups, renamed
from mom_pipeline.logs.decisions import accept_day
from mom_pipeline.logs.sample_logs import sample_deliveries
from mom_pipeline.pipeline.days import INPUTS

from .conftest import N_DAYS, SAMPLE, Pipeline, day

UP_TO_GROUPS = tuple(INPUTS)[: tuple(INPUTS).index("groups") + 1]


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
    names = kept_groups(backfilled.settings).names
    assert len(names) == 3
    support = kept_groups(backfilled.settings).support
    assert support is not None
    assert support.users[-1] == shown_of(backfilled)[-1]["people"]
    shown = shown_of(backfilled)
    assert shown[-1]["names"] == ", ".join(each.name for each in names)
    assert all("names" not in metadata for metadata in shown[:-1])
    users = backfilled.query("SELECT DISTINCT user_id FROM raw_logs")
    assert not any(user in str(shown) for (user,) in users)


def test_what_a_person_named_keeps_its_name_on_the_next_days_and_by_a_rebuild(copied: Pipeline):
    names = kept_groups(copied.settings).names
    keep_groups(copied.settings, renamed(names, names[1].name, "Night owls"))
    for full in (False, True):
        copied.run(N_DAYS, full=full)
        assert [n.name for n in kept_groups(copied.settings).names] == [
            names[0].name,
            "Night owls",
            names[2].name,
        ]
    older = kept_groups(copied.settings).names
    copied.run(2)  # a day of the past names nothing
    assert kept_groups(copied.settings).names == older


@pytest.mark.long
def test_a_campaign_that_doubles_a_group_is_said(empty: Pipeline):
    """On days that are usual, nothing is."""
    last = WARM_UP + 8
    sample = replace(SAMPLE, n_days=last, n_users=600, events_per_day=600)
    files = {delivery.name: delivery.content for delivery in sample_deliveries(sample)}
    newest = f"{day(last)}.csv.gz"
    lines = gzip.decompress(files[newest]).decode()
    rock = sorted({line.split(",")[1] for line in lines.split("\n") if ",rock-" in line})[:3]
    came = [f"new-{n},{item},{day(last)}T10:00:00" for n in range(600) for item in rock]
    files[newest] = gzip.compress("\n".join([lines.rstrip("\n"), *came, ""]).encode())
    empty.deliver(files)
    empty.run(1, last, only=UP_TO_GROUPS)
    with suppress(LogFileError):  # it is not excluded
        accept_day(empty.warehouse, day(last))
        empty.run(last, only=UP_TO_GROUPS)
    assert len(empty.days.made["groups", day(last)].facts["largest"]) >= WARM_UP
    alarms = {
        (said.check_name, said.partition): said.description
        for name in ("vanished", "split", "doubled")
        for record in empty.instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(dg.AssetKey("groups"), f"no_group_{name}"), limit=2 * last
        )
        for said in [record.event.dagster_event.asset_check_evaluation_data]
        if not said.passed
    }
    assert list(alarms) == [("no_group_doubled", str(day(last)))]
    assert "more people than on any day before" in alarms["no_group_doubled", str(day(last))]
