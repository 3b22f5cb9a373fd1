"""`mom-pipeline sums`: exported, merged and left, as typed."""

from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.catalogue import InvalidCatalogue
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.groups.shared import CannotShare, SharedSums
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import mom


@pytest.fixture(scope="module")
def ours(computed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sums") / "ours.npz"
    assert "sums of" in mom(computed, "sums", "export", "--to", str(path)).stdout
    return path


@pytest.fixture
def served(computed: Path):
    return ModelRegistry(load_settings(computed, {}).models_dir).champion()


def test_two_shops_merge_and_one_leaves(computed, ours, served, tmp_path):
    """The other shop has the same people, and another id for each of three items."""
    shared = SharedSums.load(ours)
    assert 200 <= shared.n_users <= (np.diff(served.histories.indptr) > 0).sum()
    some = shared.items[:3].tolist()
    (tmp_path / "same.csv").write_text("ours,theirs\n" + "".join(f"{i},x{i}\n" for i in some))
    theirs, both, rest = (str(tmp_path / name) for name in ("theirs.npz", "both.npz", "rest.npz"))
    options = ("--through", str(ours), "--same-items", str(tmp_path / "same.csv"), "--json")
    said = mom(computed, "sums", "export", "--to", theirs, *options).json
    assert said["common_items"] == said["items"] - 3
    assert said["people"] == shared.n_users
    merged = mom(computed, "sums", "merge", str(ours), theirs, "--to", both, "--json").json
    assert merged["people"] == 2 * shared.n_users
    assert sum(group["share"] for group in merged["groups"]) == pytest.approx(1)
    shown = mom(computed, "sums", "leave", both, theirs, "--to", rest).stdout
    assert f"3 groups of {shared.n_users:,} people (1 exports)" in " ".join(shown.split())
    left = SharedSums.load(Path(rest))
    for name, array in shared.sums.items():
        np.testing.assert_array_equal(left.sums[name], array)
    assert left.items.tolist() == shared.items.tolist()


def test_no_id_of_a_person_is_in_the_file(ours, served):
    with np.load(ours, allow_pickle=False) as file:
        content = b"".join(file[name].tobytes() for name in file.files)
    assert SharedSums.load(ours).items[0].encode() in content
    assert not [user for user in map(str, served.user_ids) if user.encode() in content]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("a,b\n", "ours,theirs"),
        ("ours,theirs\nnone,x\n", "no item 'none'"),
        ("ours,theirs\n{0},x\n{1},x\n", "stands once"),
        ("ours,theirs\n{0},{1}\n", "two of the items would be"),
    ],
)
def test_a_file_of_other_ids_that_cannot_be_meant(computed, ours, tmp_path, lines, words):
    same = tmp_path / "same.csv"
    same.write_text(lines.format(*SharedSums.load(ours).items[:2]))
    options = ("--to", str(tmp_path / "no.npz"), "--same-items", str(same))
    assert words in mom(computed, "sums", "export", *options, error=CannotShare).stderr
    assert not (tmp_path / "no.npz").exists()


def test_bad_input_is_a_sentence(computed, ours, tmp_path):
    odd = tmp_path / "odd.npz"
    odd.write_bytes(b"\xff\xfe not an archive")
    to = ("--to", str(tmp_path / "no.npz"))
    mom(computed, "sums", "merge", str(ours), str(odd), *to, error=CannotShare)
    mom(computed, "sums", "export", "--through", str(odd), *to, error=CannotShare)
    mom(computed, "sums", "export", "--same-items", str(odd), *to, error=InvalidCatalogue)
    assert (
        "in both" in mom(computed, "sums", "merge", *[str(ours)] * 2, *to, error=CannotShare).stderr
    )
    for words in (["merge", str(ours)], ["leave", *[str(ours)] * 3], ["export", str(ours)], []):
        mom(computed, "sums", *words, *to, code=2)
    mom(tmp_path / "empty", "sums", "export", *to, error=MomError)
    assert not (tmp_path / "no.npz").exists()
