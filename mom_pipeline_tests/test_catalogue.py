"""Names of items: what is read of `items.csv`, and how a name is shown."""

import pytest

from mom_pipeline.catalogue import (
    Catalogue,
    InvalidCatalogue,
    Item,
    as_cell,
    did_you_mean,
    tidy,
)

HTML, QUOTES, BIDI = "<script>alert(1)</script>", "a \"b\", 'c'", "abc\u202e\u2066dcba"


def read(folder, text):
    (folder / "items.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return Catalogue.open(folder)


def test_names_groups_and_addresses(tmp_path):
    catalogue = read(
        tmp_path,
        "\ufeffitem,name,group,url,image\n"
        '84879,"BIRD, ORNAMENT",Home|Gifts,https://x.example/1,1.png\n007,Bond,,,\n',
    )
    assert catalogue.label("84879") == "BIRD, ORNAMENT (84879)"
    assert catalogue.label("007") == "Bond (007)"
    assert catalogue.label("7") == "7"
    assert catalogue.items["84879"].groups == ("Home", "Gifts")
    assert catalogue.left_out(["7"], ["Gifts"]) == {"7", "84879"}
    assert catalogue.items["84879"].url == "https://x.example/1"


def test_no_file_names_nothing(tmp_path):
    assert Catalogue.open(tmp_path).label("7") == "7"


def test_doubled_and_missing_items(tmp_path):
    catalogue = read(tmp_path, "item,name\n1,one\n1,uno\n,nothing\n2\n3,\n")
    assert catalogue.doubled == ("1",)
    assert [catalogue.label(item) for item in "123"] == ["one (1)", "2", "3"]
    assert "" not in catalogue.items


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,title\n1,one\n", "expected the columns item,name.*found \\['id', 'title'\\]"),
        ("", "found \\[\\]"),
        ("item,name\n1,Größe\n".encode("latin-1"), "in UTF-8"),
    ],
)
def test_a_file_that_is_none_says_what_is_expected(tmp_path, text, message):
    with pytest.raises(InvalidCatalogue, match=message):
        read(tmp_path, text)


def test_odd_names_stay_text_and_come_back(tmp_path):
    names = {"h": HTML, "q": QUOTES, "b": BIDI, "l": "x" * 10_000, "n": "two\nlines", "f": "=1+1"}
    entries = [Item(item, tidy(name)) for item, name in names.items()]
    Catalogue().with_missing(entries).save(tmp_path)
    again = Catalogue.open(tmp_path)
    assert again.name("h") == HTML
    assert again.name("q") == QUOTES
    assert again.name("b") == "abcdcba"
    assert again.name("n") == "two lines"
    assert again.name("f") == "=1+1"
    assert (len(again.name("l")), len(again.label("l"))) == (500, 64)


def test_what_a_person_wrote_stays(tmp_path):
    read(tmp_path, "item,name\n1,mine\n").with_missing([Item("1", "x"), Item("2", "y")]).save(
        tmp_path
    )
    assert [Catalogue.open(tmp_path).name(item) for item in "12"] == ["mine", "y"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_a_cell_is_never_a_formula(text):
    assert as_cell(text) == f"'{text}"
    assert as_cell("x" + text) == "x" + text


def test_what_is_near_is_proposed():
    assert did_you_mean("user-0001", ["user-00001", "other"]) == "; did you mean 'user-00001'?"
    assert did_you_mean("JAM", ["jam"]) == "; did you mean 'jam'?"
    assert not did_you_mean("zzz", ["jam"])
