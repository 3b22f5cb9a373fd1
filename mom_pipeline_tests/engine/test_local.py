"""Results are added in one order, whoever adds them."""

import numpy as np
import pytest

from mom_pipeline.engine.trees import added, added_as_they_come, as_tree


class Term:
    """Writes down how it was added."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: "Term") -> "Term":
        return Term(f"({self.text} {other.text})")


def terms(n: int) -> list[Term]:
    return [Term(str(i)) for i in range(n)]


@pytest.mark.parametrize(
    ("n", "expected"),
    [(1, "0"), (2, "(0 1)"), (3, "((0 1) 2)"), (5, "(((0 1) (2 3)) 4)"),
     (6, "(((0 1) (2 3)) (4 5))"), (7, "(((0 1) (2 3)) ((4 5) 6))")],
)  # fmt: skip
def test_the_order_of_addition(n: int, expected: str) -> None:
    assert as_tree(terms(n), lambda a, b: a + b).text == expected


@pytest.mark.parametrize("n", range(1, 35))
def test_adding_as_they_come_is_the_same_tree(n: int) -> None:
    assert added_as_they_come(terms(n)).text == as_tree(terms(n), lambda a, b: a + b).text


def test_only_the_left_array_is_written_over() -> None:
    left, right = np.ones(3), np.full(3, 2.0)
    assert added(left, right) is left
    np.testing.assert_array_equal(left, 3.0)
    np.testing.assert_array_equal(right, 2.0)
