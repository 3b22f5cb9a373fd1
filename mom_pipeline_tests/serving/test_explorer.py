"""What the explorer shows of a model, without a browser."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from mom_pipeline.catalogue import Catalogue, Item
from mom_pipeline.serving.answers import UnknownItem, UnknownUser
from mom_pipeline.serving.explorer import groups
from mom_pipeline.serving.explorer.explorer import Explorer, TextIndex

from .conftest import figures


@pytest.fixture
def served(make):
    return make(1)


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
    index = TextIndex(["", "abc", "xab", "ABe", "Straße", "one\ntail"])
    assert index.search(part, 10) == expected


def test_search_is_a_filter():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ab\n"), 4)) for _ in range(200)]
    index = TextIndex(texts)
    for part in ("a", "ab", "b\na", "aaaa", "\n\n"):
        found = index.search(part, len(texts))
        assert sorted(found) == [i for i, text in enumerate(texts) if part in text]
        begins = [texts[i].startswith(part) for i in found]
        assert begins == sorted(begins, reverse=True)
        assert index.search(part, 3) == found[:3]


def test_items_are_found_by_id_and_by_name(served):
    catalogue = Catalogue({"1/7": Item("1/7", "Blue teapot"), "1/9": Item("1/9", "Teacup 1/7")})
    explorer = Explorer(served, catalogue)
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
    found = Explorer(replace(served, last_days=days), Catalogue())
    assert set(found.search("", 2).users) == {f"user {u}" for u in late}
    everybody = found.search("", 1000)
    assert sorted(everybody.users) == sorted(served.user_ids)
    assert everybody.users == found.search("", 1000).users
    assert everybody.items[0].item == served.item_ids[served.model.popularity.argmax()]


def test_a_history_is_that_of_the_model(served):
    explorer, position = Explorer(served, Catalogue()), 50
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
    moved = {"2024-02-29": (0.1, 0.2, 0.3), "2024-03-01": (0.4, 0.5, 0.6)}
    answer = Explorer(replace(served, figures=figures(moved)), Catalogue()).groups
    sizes = np.bincount(by_hand(served), minlength=3) / len(served.user_ids)
    assert [group.size for group in answer.groups] == sorted(sizes, reverse=True)
    for group in answer.groups:
        k = group.number - 1
        assert (group.size, group.agreement) == (sizes[k], (0.6, 0.5, 0.4)[k])
        told = groups.set_apart(served.model.item_probs, served.model.popularity)[:, k]
        assert group.items[0].item == served.item_ids[told.argmax()]
    assert np.sum([group.by_day for group in answer.groups], axis=0) == pytest.approx(1)
    assert all(len(group.by_day) == len(answer.days) for group in answer.groups)


def test_of_a_model_without_figures_nothing_is_known_of_its_halves(served):
    for known in (None, figures({"2024-03-01": (0.1,)})):  # of other components
        answer = Explorer(replace(served, figures=known), Catalogue()).groups
        assert {group.agreement for group in answer.groups} == {None}


def test_an_erased_item_stands_for_no_group(served):
    ids = served.item_ids.copy()
    ids[groups.set_apart(served.model.item_probs, served.model.popularity).argmax(axis=0)] = ""
    answer = Explorer(replace(served, item_ids=ids), Catalogue()).groups
    assert "" not in {item.item for group in answer.groups for item in group.items}


def test_an_item_is_taken_by_groups_on_days(served):
    explorer, position = Explorer(served, Catalogue()), 5
    item = str(served.item_ids[position])
    use, column = explorer.item(item), served.histories.toarray()[:, position] > 0
    assert use.taken_by == column.mean()
    own = np.bincount(by_hand(served)[column], minlength=3) / column.sum()
    assert {g.number: g.share for g in use.by_group} == {k + 1: own[k] for k in range(3) if own[k]}
    last = served.last_days.toarray()[column, position]
    assert sum(use.by_day) == (last > served.last_days.data.max() - 60).sum()
    with pytest.raises(UnknownItem, match="'nothing'"):
        explorer.item("nothing")


def named(**items):
    """A catalogue of the items 0, 1, ... by name: their groups."""
    entries = enumerate(items.items())
    return Catalogue({str(y): Item(str(y), name.replace("_", " "), g) for y, (name, g) in entries})


def test_a_group_is_named_by_what_sets_it_apart():
    catalogue = named(
        Silver_Moon="Jazz", Silver_Sun="Jazz|Live", Iron_Sun="Metal|Live", Iron_Moon="Metal"
    )
    O = np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 0.4], [0.0, 0.6]])
    names = groups.group_names(O, O.mean(axis=1), list("0123"), catalogue)
    assert names == ["Jazz · Silver", "Metal · Iron"]
    # A word of one item alone, or as often taken by everybody, says nothing of a group.
    assert groups.group_names(O, O.mean(axis=1), list("0123"), Catalogue()) == [
        "around 0 & 1",
        "around 3 & 2",
    ]
    twice = np.column_stack([O[:, 0], [0.6, 0.4, 0, 0], O[:, 1]])
    first, second, _ = groups.group_names(twice, twice.mean(axis=1), list("0123"), catalogue)
    assert first != second
    assert second.endswith("around Silver Moon & Silver Sun")


def test_days_are_counted_by_the_week():
    days = np.array([3, 3, 4, 10, 11, 11, 1])
    found, counts = groups.by_day(days, np.array([0, 1, 1, 0, 1, 1, 0]), 2)
    assert (found[0], found[-1]) == (date(1970, 1, 1), date(1970, 1, 11))
    assert counts.tolist()[2] == [1, 1]
    assert counts.sum() == len(days)
    shares = groups.weekly_shares(counts)
    assert shares[2].tolist() == [2 / 3, 1 / 3]  # days 1 to 3
    assert shares[10].tolist() == [1 / 3, 2 / 3]  # days 5 to 11
    assert len(groups.by_day(np.array([1, 400]), np.array([0, 0]), 1)[0]) == 60
    assert groups.by_day(np.zeros(0), np.zeros(0, dtype=int), 2)[1].sum() == 0


@pytest.mark.parametrize("K", [1, 2, 8, 100])
def test_no_group_covers_another_on_the_map(K):
    rng = np.random.default_rng(K)
    sizes = rng.dirichlet(np.full(K, 0.7))
    places = groups.bubbles(rng.dirichlet(np.ones(300), K).T, sizes)
    xy, radius = places[:, :2], places[:, 2]
    assert (xy - radius[:, None]).min() > -1e-9
    assert (xy + radius[:, None]).max() < 1 + 1e-9
    apart = np.linalg.norm(xy[:, None] - xy, axis=2) + 9 * np.eye(K)
    assert (apart >= 0.99 * (radius[:, None] + radius)).all()
    assert (np.diff(radius[np.argsort(sizes)]) >= 0).all()
    assert (np.pi * radius**2).sum() > 0.3  # no empty map
