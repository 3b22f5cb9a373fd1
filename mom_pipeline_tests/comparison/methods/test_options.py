import numpy as np
import pytest

from mom_pipeline.comparison.methods import METHODS
from mom_pipeline.comparison.methods.interface import filled, in_range, weighted, whole
from mom_pipeline.core.errors import InvalidSetting


def test_values_as_the_method_sees_them(counts):
    before = counts.data.copy()
    for values, expected in [
        ("counts", before),
        ("binary", np.ones(counts.nnz)),
        ("log", np.log2(1 + before)),
    ]:
        seen = weighted(counts, values)
        np.testing.assert_array_equal(seen.data, expected)
        np.testing.assert_array_equal(seen.indices, counts.indices)
    np.testing.assert_array_equal(counts.data, before)
    with pytest.raises(InvalidSetting, match="binary, counts, log, found 'ratings'"):
        weighted(counts, "ratings")


def test_settings_are_filled_in():
    assert filled({"a": 2}, {"a": 1, "b": "x"}) == {"a": 2, "b": "x"}
    with pytest.raises(InvalidSetting, match="among a, b, found c"):
        filled({"c": 1}, {"a": 1, "b": "x"})
    with pytest.raises(InvalidSetting, match="a must be of the kind of 1"):
        filled({"a": "two"}, {"a": 1})


def test_numbers_have_a_range():
    assert in_range("a", 0, 0) == 0.0
    assert whole("k", 3.0) == 3
    with pytest.raises(InvalidSetting, match="a must be above 0, found 0"):
        in_range("a", 0, 0, above=True)
    with pytest.raises(InvalidSetting, match="a must be at least 0, found nan"):
        in_range("a", float("nan"), 0)
    with pytest.raises(InvalidSetting, match=r"k must be a whole number, found 2\.5"):
        whole("k", 2.5)


@pytest.mark.parametrize("name", METHODS)
def test_a_setting_that_the_method_does_not_know_is_refused(name, counts):
    with pytest.raises(InvalidSetting, match="found depth"):
        METHODS[name].fit(counts, {"depth": 3}, 0)
