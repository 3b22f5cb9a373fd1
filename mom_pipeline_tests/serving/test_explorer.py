"""What the explorer shows of a model, without a browser."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.core.groups.support import SupportCurve
from mom_pipeline.groups.apart import set_apart
from mom_pipeline.groups.names import KeptGroups
from mom_pipeline.serving.answers import UnknownGroup, UnknownItem, UnknownUser
from mom_pipeline.serving.explorer.explorer import Explorer, found_in
from mom_pipeline.serving.groups import KnownGroups
from mom_pipeline.serving.rules import Rules

from .conftest import figures


@pytest.fixture
def served(make):
    return make(1)


def exploring(served, catalogue=None):
    return Explorer(KnownGroups(served, Rules(catalogue=catalogue or Catalogue())))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("AB", [1, 3, 2]),  # beginnings first
        ("STRASSE", [4]),
        ("e\nt", [5]),
        ("c\na", []),  # nothing is found across two texts
    ],
)
def test_search_finds_parts_of_a_text(part, expected):
    texts = [text.casefold() for text in ("", "abc", "xab", "ABe", "Straße", "one\ntail")]
    assert found_in(texts, part, 10) == expected
    assert found_in(texts, part, 2) == expected[:2]


def test_items_are_found_by_id_and_by_name(served):
    catalogue = Catalogue({"1/7": Item("1/7", "Blue teapot"), "1/9": Item("1/9", "Teacup 1/7")})
    explorer = exploring(served, catalogue)
    assert [item.item for item in explorer.search("TEA", 5).items] == ["1/9", "1/7"]
    assert [item.name for item in explorer.search("1/7", 5).items] == ["Blue teapot", "Teacup 1/7"]
    found = explorer.search("user 19", 3)
    assert (found.users, found.more) == (("user 19", "user 190", "user 191"), True)
    assert not explorer.search("user 19", 50).more


def test_without_a_text_people_of_some_history_and_of_late_come_first(served):
    X, days = served.histories, served.last_days.copy()
    late = np.flatnonzero(np.diff(X.indptr) >= 5)[[3, 9]]
    owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    days.data = np.where(np.isin(owners, late), 100, 50)
    found = exploring(replace(served, last_days=days))
    assert set(found.search("", 2).users) == {f"user {u}" for u in late}
    everybody = found.search("", 1000)
    assert sorted(everybody.users) == sorted(served.user_ids)
    assert everybody.users == found.search("", 1000).users
    assert everybody.items[0].item == served.item_ids[served.model.popularity.argmax()]


def test_a_history_is_that_of_the_model(served):
    explorer, position = exploring(served), 50
    history = explorer.history("user 50", 1000)
    row = served.histories[[position]].toarray()[0]
    assert {entry.item: entry.weight for entry in history.items} == {
        str(served.item_ids[y]): row[y] for y in np.flatnonzero(row)
    }
    days = [date.fromisoformat(entry.day) for entry in history.items]
    assert days == sorted(days, reverse=True)
    last = served.last_days[[position]].data.max()
    assert days[0] == date(1970, 1, 1) + timedelta(days=int(last) - 1)
    short = explorer.history("user 50", 2)
    assert (len(short.items), short.total) == (2, len(history.items))
    with pytest.raises(UnknownUser, match="'nobody'"):
        explorer.history("nobody", 3)


def by_hand(served):
    """Everybody's group."""
    return served.model.memberships(served.histories).argmax(axis=1)


def test_everybody_is_in_one_group(served):
    moved = {"2024-02-29": (0.1, 0.2, 0.3), "2024-03-01": (0.4, 0.5, 0.3)}
    answer = exploring(replace(served, figures=figures(moved))).groups.all
    sizes = np.bincount(by_hand(served), minlength=3) / len(served.user_ids)
    assert [group.size for group in answer.groups] == sorted(sizes, reverse=True)
    for group in answer.groups:
        k = group.number - 1
        assert (group.size, group.agreement) == (sizes[k], (0.6, 0.5, 0.7)[k])
        told = set_apart(served.model.item_probs, served.model.popularity)[:, k]
        assert group.items[0].item == served.item_ids[told.argmax()]
        own = served.histories.toarray()[by_hand(served) == k][:, told.argmax()] > 0
        low, high = group.items[0].taken_interval
        assert low < group.items[0].taken == own.mean() < high
    assert np.sum([group.by_day for group in answer.groups], axis=0) == pytest.approx(1)
    assert all(len(group.by_day) == len(answer.days) for group in answer.groups)


def test_a_group_that_the_data_does_not_support_is_not_shown(served):
    known = exploring(replace(served, figures=figures({"2024-03-01": (0.1, 0.9, 0.2)}))).groups
    assert sorted(group.number for group in known.all.groups) == [1, 3]
    assert known.all.unsupported == 1
    assert sum(group.people for group in known.all.groups) == len(served.user_ids)
    assert all(block["number"].tolist().count(2) == 0 for block in known.members())
    with pytest.raises(UnknownGroup, match="does not support the group '2'"):
        known.page("2")


def test_what_halves_agree_on_by_chance_is_not_shown_and_not_more_than_is_supported(served):
    halves = figures({"2024-03-01": (0.2, 0.1, 0.3)})
    by_chance = [
        halves.model_copy(update={"days": (halves.days[-1].model_copy(update={"chance": level}),)})
        for level in (0.75, 0.95)
    ]
    one, none = (exploring(replace(served, figures=own)).groups for own in by_chance)
    assert sorted(group.number for group in one.all.groups) == [1, 2]
    assert not any(group.uncertain for group in one.all.groups)
    assert [group.uncertain for group in none.all.groups] == [True] * 3
    for most, shown in ((64, [1, 2]), (2, [1, 2]), (1, [2])):
        kept = KeptGroups(support=SupportCurve((1, 2, 4, 8), (0, 0, 0, most), 64))
        known = KnownGroups(replace(served, figures=by_chance[0]), Rules(kept=kept))
        assert known.shown.tolist() == [number - 1 for number in shown]


def test_of_a_model_without_figures_nothing_is_known_of_its_halves(served):
    for known in (None, figures({"2024-03-01": (0.1,)})):  # of other components
        answer = exploring(replace(served, figures=known)).groups.all
        assert {group.agreement for group in answer.groups} == {None}


def test_an_erased_item_stands_for_no_group(served):
    ids = served.item_ids.copy()
    ids[set_apart(served.model.item_probs, served.model.popularity).argmax(axis=0)] = ""
    answer = exploring(replace(served, item_ids=ids)).groups.all
    assert "" not in {item.item for group in answer.groups for item in group.items}


def test_an_item_is_taken_by_groups_on_days(served):
    explorer, position = exploring(served), 5
    item = str(served.item_ids[position])
    use, column = explorer.item(item), served.histories.toarray()[:, position] > 0
    assert use.taken_by == column.mean()
    own = np.bincount(by_hand(served)[column], minlength=3) / column.sum()
    assert {g.number: g.share for g in use.by_group} == {k + 1: own[k] for k in range(3) if own[k]}
    last = served.last_days.toarray()[column, position]
    assert sum(use.by_day) == (last > served.last_days.data.max() - 60).sum()
    with pytest.raises(UnknownItem, match="'nothing'"):
        explorer.item("nothing")


def test_an_item_that_nobody_took_is_expected_where_its_words_are(served):
    O, ids = served.model.item_probs, [str(item) for item in served.item_ids]
    kinds = set_apart(O, served.model.popularity).argmax(axis=1)
    entries = [
        Item(item, f"thing {y}", f"Kind {k}")
        for y, (item, k) in enumerate(zip(ids, kinds, strict=True))
    ]
    entries += [Item("new", "", "Kind 1"), Item("odd", "Quite unlike", "Elsewhere")]
    explorer = exploring(served, Catalogue({entry.item: entry for entry in entries}))
    use = explorer.item("new")
    assert (use.expected, use.taken_by, use.groups) == (True, 0, ("Kind 1",))
    assert sum(group.share for group in use.by_group) == pytest.approx(1)
    lifts = {group.number: group.share / group.usual for group in use.by_group}
    assert max(lifts, key=lifts.__getitem__) == 2
    assert not explorer.item(ids[0]).expected
    for unknown in ("odd", "nothing"):
        with pytest.raises(UnknownItem):
            explorer.item(unknown)
