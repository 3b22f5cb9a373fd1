"""What happened to groups since the day before: said where it did, and hardly ever by chance."""

import numpy as np
import pytest

from mom_pipeline.groups.changes import ALPHA, WARM_UP, GroupDay, compare_days

K, N = 8, 800
BEFORE = np.arange(N) % K


def mixed(rng, share=0.05):
    """The groups of a day on which some people move anywhere."""
    after = BEFORE.copy()
    moving = rng.random(N) < share
    after[moving] = rng.integers(0, K, moving.sum())
    return after


def vanish(after):
    own = np.flatnonzero(BEFORE == 2)
    after[own] = np.delete(np.arange(K), 2)[np.arange(len(own)) % (K - 1)]


def split(after):
    after[np.flatnonzero(BEFORE == 3)[::2]] = 2
    after[BEFORE == 2] = 4


def double(after):
    others = np.flatnonzero(BEFORE != 5)
    after[np.random.default_rng(1).choice(others, 120, replace=False)] = 5


@pytest.mark.parametrize(
    ("what", "kind", "group"),
    [(vanish, "vanished", 2), (split, "split", 3), (double, "doubled", 5)],
)
def test_what_happened_to_a_group_is_said(what, kind, group):
    rng = np.random.default_rng(0)
    after = mixed(rng)
    what(after)
    found = compare_days(BEFORE, after, K)
    assert (kind, group) in {(c.kind, c.group) for c in found.changes}
    assert all(c.p_value <= ALPHA for c in found.changes)
    quiet = [compare_days(BEFORE, mixed(rng), K).largest for _ in range(WARM_UP)]
    assert found.alarms(quiet) == found.changes
    assert found.alarms(quiet[1:]) == ()  # too few days to know what is usual
    assert found.alarms([*quiet, found.largest]) == ()  # as large as before


def test_a_group_under_another_number_has_not_vanished():
    after = np.where(BEFORE == 2, 3, np.where(BEFORE == 3, 2, BEFORE))
    assert compare_days(BEFORE, after, K).changes == ()


def test_many_newcomers_in_one_group_double_it():
    new = np.full(150, 4)
    (change,) = compare_days(BEFORE, np.append(BEFORE, new), K).changes
    assert (change.kind, change.group, change.before, change.after) == ("doubled", 4, 100, 250)
    everywhere = np.arange(900) % K
    assert compare_days(BEFORE, np.append(BEFORE, everywhere), K).changes == ()


def test_few_people_prove_nothing():
    before, after = np.array([0, 0, 1, 1, 1, 1]), np.array([0, 0, 0, 0, 1, 1])
    assert compare_days(before, after, 2).changes == ()
    nobody = np.full(5, -1)
    assert compare_days(nobody, nobody, 3) == GroupDay(0.0, (), 0.0)


def test_people_who_move_for_themselves_raise_at_most_one_alarm_in_a_hundred_days():
    rng, days = np.random.default_rng(0), 0
    for _ in range(300):
        before = rng.choice(K, N, p=rng.dirichlet(np.ones(K)))
        moving = rng.random(N) < rng.uniform(0, 0.6)
        after = before.copy()
        after[moving] = before[moving][rng.permutation(moving.sum())]  # as many come as go
        days += bool(compare_days(before, after, K).changes)
    assert days <= 300 * ALPHA + 3


def test_days_that_could_stand_in_any_order_raise_about_one_alarm_in_a_hundred():
    """Even where people move together on every day."""
    rng, alarms, past = np.random.default_rng(0), 0, []
    after = mixed(rng)
    vanish(after)
    (change, *_) = compare_days(BEFORE, after, K).changes
    for _ in range(2_000):
        found = GroupDay(0.5, (change,), float(rng.random()))
        alarms += bool(found.alarms(past))
        past = [*past, found.largest][-99:]
    assert 5 <= alarms <= 35
