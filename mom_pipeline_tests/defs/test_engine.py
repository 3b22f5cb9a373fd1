"""A day computed on a Dask cluster is the day; without the cluster nothing changes."""

import numpy as np
import pytest

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.settings import load_settings

from .conftest import Pipeline, day

ON_DASK = '[engine]\nkind = "dask"\nworkers = 2\n'


def with_engine(pipeline: Pipeline, section: str) -> Pipeline:
    path = pipeline.root / "pipeline.toml"
    path.write_text(path.read_text() + section)
    return pipeline


def test_a_rebuild_on_a_cluster_is_that_of_this_process(copied: Pipeline):
    _, local, _ = copied.state.moments(day(1))
    with_engine(copied, ON_DASK).run(1, only=["m2_statistics"], full=True)
    _, remote, _ = copied.state.moments(day(1))
    assert "full" in copied.mode(1)
    assert remote.first.n_users > 0
    expected = local.as_arrays()
    for name, array in remote.as_arrays().items():
        np.testing.assert_allclose(array, expected[name], atol=1e-9, err_msg=name)
    assert not list(copied.settings.scratch_dir.glob("shards-*"))


def test_a_cluster_that_cannot_be_reached_is_told_and_nothing_changes(copied: Pipeline):
    before = copied.state.artifacts.describe("m2_statistics", day(1)).version
    with_engine(copied, '[engine]\nkind = "dask"\naddress = "tcp://127.0.0.1:9"\n')
    done = copied.run(1, only=["m2_statistics"], full=True, succeeds=False)
    failure = done.failure_data_for_node("m2_statistics")
    assert failure is not None
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in str(failure.error)
    assert copied.state.artifacts.describe("m2_statistics", day(1)).version == before


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('kind = "spark"', "engine.kind must be one of"),
        ("workers = 0", "engine.workers must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, section, message):
    (tmp_path / "pipeline.toml").write_text(f"[engine]\n{section}\n")
    with pytest.raises(InvalidSetting, match=message):
        load_settings(tmp_path, {})
