"""Names of groups: what sets them apart, from day to day, and what a person calls them."""

import numpy as np
import pytest

from mom_pipeline.catalogue import Catalogue, Item, tidy
from mom_pipeline.groups.names import (
    BadGroupName,
    NamedGroup,
    find_group,
    keep_groups,
    kept_groups,
    named_groups,
    renamed,
)
from mom_pipeline.settings import load_settings

IDS = list("0123")
O = np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 0.4], [0.0, 0.6]])


def catalogue_of(**items):
    """A catalogue of the items 0, 1, ... by name: their groups."""
    entries = enumerate(items.items())
    return Catalogue({str(y): Item(str(y), name.replace("_", " "), g) for y, (name, g) in entries})


JAZZ = catalogue_of(
    Silver_Moon="Jazz", Silver_Sun="Jazz|Live", Iron_Sun="Metal|Live", Iron_Moon="Metal"
)


def names_of(O, catalogue, kept=(), ids=IDS):
    return [each.name for each in named_groups(O, O.mean(axis=1), ids, catalogue, kept)]


def test_a_group_is_named_by_what_sets_it_apart():
    assert names_of(O, JAZZ) == ["Jazz · Silver", "Metal · Iron"]
    # A word of one item alone, or as often taken by everybody, says nothing of a group.
    assert names_of(O, Catalogue()) == ["like 0", "like 3"]
    twice = np.column_stack([O[:, 0], [0.6, 0.4, 0, 0], O[:, 1]])
    first, second, _ = names_of(twice, JAZZ)
    assert (first, second) == ("Jazz · Silver", "Jazz like Silver Moon")


def test_a_name_has_two_to_four_words_where_there_is_something_to_say():
    rng = np.random.default_rng(0)
    words = [f"Word{a}{b}" for a in "abcdef" for b in "abcdef"]
    items = {str(y): " ".join(rng.choice(words, 40)) for y in range(60)}
    catalogue = Catalogue({i: Item(i, tidy(name), words[int(i) % 5]) for i, name in items.items()})
    O = rng.dirichlet(np.full(60, 0.05), 12).T
    names = names_of(O, catalogue, ids=list(items))
    assert len({name.casefold() for name in names}) == 12
    assert all(2 <= len(name.replace("·", " ").split()) <= 5 for name in names)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("кружка синяя", "Кружка"),
        ("हिन्दी किताब", "हिन्दी"),
        ("青い 茶碗", "青い"),
        ("كتاب أزرق", "كتاب"),
        ("ถ้วย, (3)", "ถ้วย"),
    ],
)
def test_names_in_any_script_are_words(name, word):
    entries = [Item("0", f"{name} 1"), Item("1", f"{name}/2"), Item("2", "Iron"), Item("3", "Sun")]
    catalogue = Catalogue({entry.item: entry for entry in entries})
    assert word in names_of(O, catalogue)[0]


def test_an_item_of_ten_thousand_words_is_read_like_others():
    long = tidy(" ".join(f"w{n:04}" for n in range(10_000)))
    catalogue = Catalogue({"0": Item("0", long), "1": Item("1", long), "2": Item("2", "Iron Sun")})
    first, second = names_of(O, catalogue)
    assert max(len(first), len(second)) < 80


def test_a_name_stays_with_its_group_whatever_its_number():
    kept = named_groups(O, O.mean(axis=1), IDS, JAZZ)
    mixed = 0.8 * O[:, ::-1] + 0.2 * O
    assert names_of(mixed, JAZZ, kept) == ["Metal · Iron", "Jazz · Silver"]
    # Another catalogue names what had no name, and leaves the names there were.
    changed = catalogue_of(Alto="Reed", Tenor="Reed", Snare="Drum", Bass="Drum")
    assert names_of(O, changed, kept) == ["Jazz · Silver", "Metal · Iron"]
    nameless = named_groups(O, O.mean(axis=1), IDS, Catalogue())
    assert names_of(O, changed, nameless) == ["Mostly Reed", "Mostly Drum"]


def test_a_group_that_is_another_one_gets_another_name():
    kept = [NamedGroup("Gone", "person", {"9": 1.0})]
    assert "Gone" not in names_of(O, JAZZ, kept)
    # Its name stays taken: the group may come back.
    assert (
        names_of(O, JAZZ, [NamedGroup("jazz · silver", "person", {"9": 1.0})])[0] != "Jazz · Silver"
    )


def test_what_a_person_names_stays(tmp_path):
    settings = load_settings(tmp_path)
    assert kept_groups(settings).names == ()
    names = named_groups(O, O.mean(axis=1), IDS, JAZZ)
    keep_groups(settings, renamed(names, "jazz · silver", "  Night   owls "))
    again = named_groups(O, O.mean(axis=1), IDS, JAZZ, kept_groups(settings).names)
    assert [each.name for each in again] == ["Night owls", "Metal · Iron"]
    assert [each.by for each in again] == ["person", "words"]
    twice = renamed(again, "1", "Sleepless")
    keep_groups(settings, twice)
    assert [each.name for each in kept_groups(settings).names] == ["Sleepless", "Metal · Iron"]
    # A day without the group does not lose its name.
    keep_groups(
        settings, named_groups(O[:, 1:], O.mean(axis=1), IDS, JAZZ, kept_groups(settings).names)
    )
    assert "Sleepless" in [each.name for each in kept_groups(settings).names]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Jaz · Silver", "x y", "did you mean 'Jazz · Silver'"),
        ("silver", "x y", "did you mean 'Jazz · Silver'"),
        ("nothing", "x y", "lists them"),
        ("\ud800\x00", "x y", "no group is called"),
        ("3", "x y", "no group is called '3'"),
        ("1", "metal · iron", "another group is called"),
        ("1", "\u202e\x07 12", "a name has letters"),
        ("1", "a" * 61, "60 at most"),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_a_sentence(old, new, said):
    names = named_groups(O, O.mean(axis=1), IDS, JAZZ)
    with pytest.raises(BadGroupName, match=said):
        renamed(names, old, new)


def test_a_number_finds_a_group_too():
    assert find_group(["One thing", "2"], "2") == 1
    assert find_group(["One thing", "Other"], "1") == 0


def test_damaged_names_are_said(tmp_path):
    settings = load_settings(tmp_path)
    settings.shop_dir.mkdir(parents=True)
    (settings.shop_dir / "groups.json").write_text("{")
    with pytest.raises(Exception, match="cannot be read"):
        kept_groups(settings)
