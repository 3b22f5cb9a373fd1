import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison.methods import ease
from mom_pipeline.comparison.methods.ease import fit_ease, item_weights
from mom_pipeline.comparison.methods.interface import TooLarge


@pytest.fixture
def many(rng):
    return sparse.csr_array(rng.poisson(0.15, size=(300, 90)).astype(float))


def closed_form(X, ridge):
    P = np.linalg.inv(X.T @ X + ridge * np.eye(X.shape[1]))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0)
    return B


@pytest.mark.parametrize("columns", [7, 512])
def test_weights_equal_the_closed_form(many, columns, monkeypatch):
    monkeypatch.setattr(ease, "_COLUMNS_PER_BLOCK", columns)
    np.testing.assert_allclose(
        item_weights(many, 3.0), closed_form(many.toarray(), 3.0), rtol=1e-9, atol=1e-14
    )


def test_weights_are_the_least_squares_of_every_item_on_the_others(many):
    X, B = many.toarray(), item_weights(many, 5.0)
    others = np.delete(X, 11, axis=1)
    ridge = np.linalg.solve(others.T @ others + 5 * np.eye(89), others.T @ X[:, 11])
    np.testing.assert_allclose(np.delete(B[:, 11], 11), ridge, rtol=1e-9)


def test_scores_are_the_history_times_the_weights(many):
    fitted = fit_ease(many, 0, regularization=4.0, values="log")
    seen = np.log2(1 + many.toarray())
    np.testing.assert_allclose(fitted.scores(many), seen @ closed_form(seen, 4.0), atol=1e-10)


def test_single_precision_is_close(many, monkeypatch):
    monkeypatch.setattr(ease, "_SINGLE_FROM", 10)
    B = item_weights(many, 3.0)
    assert B.dtype == np.float32
    np.testing.assert_allclose(B, closed_form(many.toarray(), 3.0), atol=1e-5)


def test_too_many_items_are_refused_with_numbers(many, monkeypatch):
    monkeypatch.setattr(ease, "memory_of_machine", lambda: 100_000)
    with pytest.raises(TooLarge, match=r"over 90 items needs 0\.00 GB, allowed are 0\.00 GB"):
        fit_ease(many, 0)
    monkeypatch.setattr(ease, "memory_of_machine", lambda: 16_000_000_000)
    message = r"over 200000 items needs 200\.00 GB, allowed are 8\.00 GB \(half of this machine\)"
    with pytest.raises(TooLarge, match=message):
        ease.require_memory(200_000)
    ease.require_memory(20_000)
