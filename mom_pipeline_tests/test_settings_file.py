import tomllib
from pathlib import Path

import pytest

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.settings import load_settings
from mom_pipeline.settings_file import with_values, write_values

COMMITTED = Path(__file__).parents[1] / "data" / "pipeline.toml"
VALUES = {
    "model.n_components": 16,
    "model.estimator": "unbiased",
    "ranking.penalty": 0.25,
    "ranking.learn": False,
}


def test_only_the_values_change():
    before = COMMITTED.read_text()
    after = with_values(before, {"matrix.window_days": 30, "pipeline.end_date": "2024-04-01"})
    changed = [(a, b) for a, b in zip(before.split("\n"), after.split("\n"), strict=True) if a != b]
    assert changed == [
        ('end_date = ""', 'end_date = "2024-04-01"'),
        ("window_days = 0", "window_days = 30"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet",
        "[model]",
        "[matrix]\nn_components = 3\n",
        "[model]  # of this folder\r\n  n_components=3# why\r\n[matrix]\r\nestimator = 'x'\r\n",
        '[model]\nestimator = "a # b"   # c\n\n[ranking]\n\n\n[logs.columns]\npenalty = 1\n',
        "model = {n_components = 3}  # c\n",
        "model.n_components = 3\n",
        '[logs]\nx = """\n[model]\nn_components = 1\n"""\n',
    ],
)
def test_missing_keys_and_sections_are_added(text):
    after = with_values(text, VALUES)
    expected = tomllib.loads(text)
    for dotted, value in VALUES.items():
        section, key = dotted.split(".")
        expected.setdefault(section, {})[key] = value
    assert tomllib.loads(after) == expected
    for comment in ("# nothing yet", "# of this folder", "# why", "# c"):
        assert (comment in text) == (comment in after)


@pytest.mark.parametrize(
    "text",
    [
        "model = 3\n",
        "[model\n",
    ],
)
def test_a_file_that_cannot_be_edited_stays_as_it_is(text, tmp_path):
    path = tmp_path / "pipeline.toml"
    path.write_text(text)
    with pytest.raises(InvalidSetting, match=r"model.n_components = 16.* by hand"):
        write_values(path, VALUES)
    assert path.read_text() == text


def test_the_file_is_read_as_it_was_written(tmp_path):
    write_values(tmp_path / "pipeline.toml", VALUES)
    settings = load_settings(tmp_path, {})
    assert settings.model.n_components == 16
    assert settings.ranking.penalty == 0.25
