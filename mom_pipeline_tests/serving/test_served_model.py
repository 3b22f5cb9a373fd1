import json
from dataclasses import asdict

import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.errors import DamagedModel
from mom_pipeline.serving.served_model import MANIFEST, MODEL, PEOPLE, Manifest, ServedModel
from mom_pipeline.settings import ModelSettings

N, D, K = 200, 30, 3


@pytest.fixture(scope="module")
def served():
    _, X = simulate(N, D, K, items_per_user=8, seed=0)
    model = MethodOfMoments(K, ranking="classes").fit(X)
    items = np.array([f"item {y}" for y in range(D - 2)] + ["naïve \n'\"", "="], dtype=object)
    users = np.array([f"user {u}" for u in range(N - 1)] + ["ü" * 300], dtype=object)
    manifest = Manifest("v1", "2024-03-01", "2", "rows", asdict(ModelSettings()), {}, {"map": 0.1})
    return ServedModel(manifest, model.fitted, items, users, X)


def test_what_was_saved_comes_back(served, tmp_path):
    served.save(tmp_path)
    again = ServedModel.load(tmp_path)
    assert again.manifest == served.manifest
    assert list(again.item_ids) == list(served.item_ids)
    assert again.user_positions == served.user_positions
    assert (again.histories != served.histories).nnz == 0
    np.testing.assert_array_equal(again.model.item_probs, served.model.item_probs)


@pytest.mark.parametrize("name", [MODEL, PEOPLE, MANIFEST])
def test_damage_is_seen(served, tmp_path, name):
    served.save(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / name).write_bytes(bytes(data))
    with pytest.raises(DamagedModel):
        ServedModel.load(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DamagedModel):
        ServedModel.load(tmp_path)


def test_a_manifest_without_a_field_is_damaged(served, tmp_path):
    served.save(tmp_path)
    values = json.loads((tmp_path / MANIFEST).read_text())
    del values["day"]
    (tmp_path / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(DamagedModel, match="manifest"):
        ServedModel.load(tmp_path)
