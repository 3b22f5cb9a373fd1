import json

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.errors import (
    DamagedModel,
    InvalidInteractions,
    InvalidSetting,
    MomError,
    NotFitted,
)
from mom_pipeline.core.persistence import load_arrays, save_arrays
from mom_pipeline.core.ranking.learning import Window

GIVEN = RankingWeights(users=(0.1, 0.0), ease=(0.4, 0.1), low_pass=(0.3, 0.0))


@pytest.fixture(scope="module")
def model(counts):
    return MethodOfMoments(5, "unbiased", ranking_weights=GIVEN).fit(counts)


def test_classes_are_found(model, truth_and_counts):
    truth, _ = truth_and_counts
    distance = np.abs(model.item_probs[:, :, None] - truth.item_probs[:, None, :]).sum(axis=0)
    assert distance.min(axis=0).max() < 0.35
    np.testing.assert_allclose(model.weights, truth.weights, atol=0.03)


@pytest.mark.parametrize(
    ("estimator", "rule", "precision"),
    [
        ("paper", "product", "double"),
        ("unbiased", "tempered", "single"),
        ("balanced", "em", "auto"),
    ],
)
def test_what_comes_out_are_distributions(counts, estimator, rule, precision):
    model = MethodOfMoments(5, estimator, rule, ranking="components", precision=precision)
    model.fit(counts)
    np.testing.assert_allclose(model.item_probs.sum(axis=0), 1.0, rtol=1e-5)
    assert model.item_probs.min() >= 0
    assert model.weights.sum() == pytest.approx(1.0)
    memberships = model.personalize(counts)
    assert memberships.shape == (counts.shape[0], 5)
    np.testing.assert_allclose(memberships.sum(axis=1), 1.0, rtol=1e-5)


def test_components_see_the_rows_that_they_are_told_to(counts):
    values = {
        "binary": np.ones_like(counts.data),
        "log": np.log2(1 + counts.data),
        "counts": counts.data,
    }
    models = {}
    for rows, data in values.items():
        X = counts.copy()
        X.data = data
        model = MethodOfMoments(5, "paper", ranking="components", rows=rows).fit(counts)
        expected = MethodOfMoments(5, "paper", ranking="components", rows="counts").fit(X)
        np.testing.assert_allclose(model.item_probs, expected.item_probs, atol=1e-9)
        np.testing.assert_allclose(model.transform(counts), expected.transform(X), atol=1e-9)
        models[rows] = model
    assert np.abs(models["binary"].item_probs - models["counts"].item_probs).max() > 1e-3
    for estimator, rows in {"paper": "binary", "balanced": "binary", "unbiased": "counts"}.items():
        assert MethodOfMoments(5, estimator, ranking="components").fit(counts).fitted.rows == rows


def test_diagnostics_are_plain_and_complete(model):
    found = json.loads(json.dumps(model.diagnostics))
    for key in ("negative_mass", "weight_sum", "eigenvalues", "bounds", "passes", "seconds"):
        assert key in found
    assert len(found["eigenvalues"]) == 5
    assert set(found["seconds"]) >= {"whitening", "tensor", "decomposition"}
    assert found["weight_sum"] == pytest.approx(1.0, abs=0.1)


def test_recommendations_leave_out_what_the_user_had(model, counts):
    for ranking in ("components", "three-moment"):
        ids, scores = model.recommend(counts[:50], n=30, ranking=ranking)
        taken = counts[:50].toarray() > 0
        assert not np.take_along_axis(taken, ids, axis=1).any()
        assert (np.diff(scores, axis=1) <= 0).all()
        with_seen, _ = model.recommend(counts[:50], n=30, ranking=ranking, exclude_seen=False)
        assert np.take_along_axis(taken, with_seen, axis=1).any()


def test_given_validation_data_is_what_the_weights_are_chosen_on(counts):
    X, model = counts[:2000], MethodOfMoments(5)
    split = Window.hiding(X, np.random.default_rng(0))
    later = split.later.toarray()
    model.fit(split.X, held_out=sparse.csr_array(later))
    assert model.diagnostics["learnt"]["n_users"] > 1500
    with pytest.raises(InvalidInteractions, match="no user of held_out"):
        model.fit(split.X, held_out=sparse.csr_array(X.shape))
    with pytest.raises(InvalidInteractions, match="held_out must have the 2000 users"):
        model.fit(split.X, held_out=later[:3])


def test_components_keep_their_identity_from_fit_to_fit(counts, model):
    # Items in another order of weights: without matching, the components would change places.
    heavy = np.argsort(model.personalize(counts)[:, -1])[::-1][:2500]
    later = MethodOfMoments(5, "unbiased", ranking="components").fit(counts[heavy], previous=model)
    assert (np.diff(later.weights) > 0).any()
    distance = np.abs(model.item_probs[:, :, None] - later.item_probs[:, None, :]).sum(axis=0)
    np.testing.assert_array_equal(np.argmin(distance, axis=0)[:4], np.arange(4))


def test_saved_and_loaded_it_gives_the_same(model, counts, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    loaded = MethodOfMoments.load(path)
    assert loaded.ranking_weights == GIVEN
    assert loaded.diagnostics == json.loads(json.dumps(model.diagnostics))
    for ranking in ("components", "three-moment"):
        for found, expected in zip(
            loaded.recommend(counts, ranking=ranking),
            model.recommend(counts, ranking=ranking),
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"not a model at all"])
def test_a_damaged_file_is_refused(model, tmp_path, damage):
    path = tmp_path / "model.npz"
    model.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedModel):
        MethodOfMoments.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("weights", lambda a: a[:-1]),
        ("item_probs", lambda a: -a),
        ("item_probs", lambda a: a * np.nan),
        ("popularity", lambda a: a * 2),
        ("pair_item_users", lambda a: a[:-1]),
        ("pair_steps", lambda a: a + 10_000),
        ("pair_starts", lambda a: a[::-1]),
        ("pair_units", lambda a: a[:-1]),
        ("low_pass_rows", lambda a: a[:5]),
        ("low_pass_scale", lambda a: a[:-1]),
        ("ease_rest", lambda a: a[:-1]),
    ],
)
def test_contents_that_do_not_fit_together_are_refused(model, tmp_path, name, change):
    path = tmp_path / "model.npz"
    model.save(path)
    header, arrays = load_arrays(path)
    arrays[name] = change(arrays[name])
    save_arrays(path, header, arrays)
    with pytest.raises(DamagedModel, match="whole model"):
        MethodOfMoments.load(path)


def test_progress_reaches_a_callback_and_a_rich_bar(counts):
    from rich.progress import Progress

    seen = []
    MethodOfMoments(3, ranking="components").fit(
        counts, progress=lambda stage, share: seen.append((stage, share))
    )
    assert ("whitening", 0.0) in seen
    assert ("decomposition", 1.0) in seen
    bar = Progress(disable=True)
    MethodOfMoments(3, ranking="components").fit(counts, progress=bar)
    assert {task.description for task in bar.tasks} == {stage for stage, _ in seen}
    assert all(task.finished for task in bar.tasks)


def test_what_was_not_fitted_is_not_answered(counts):
    model = MethodOfMoments(3, ranking="components")
    with pytest.raises(NotFitted, match="call fit first"):
        model.personalize(counts)
    with pytest.raises(MomError, match="ranking='three-moment'"):
        model.fit(counts).recommend(counts[:2], ranking="three-moment")


@pytest.mark.parametrize("name", ["estimator", "personalization", "ranking", "precision", "rows"])
def test_unknown_settings_are_refused_before_any_data(name):
    with pytest.raises(InvalidSetting, match=f"{name} must be .*found 'best'"):
        MethodOfMoments(3, **{name: "best"})


@pytest.mark.parametrize("name", ["decomposition", "projection"])
def test_unknown_steps_are_refused(counts, name):
    with pytest.raises(InvalidSetting, match=f"{name} must be .*found 'best'"):
        MethodOfMoments(3, ranking="components", **{name: "best"}).fit(counts)
