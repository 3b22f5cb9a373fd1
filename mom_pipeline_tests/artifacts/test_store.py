"""Artifacts: what is read is what was written, or an error."""

import json
import shutil
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from mom_pipeline.artifacts.recent import recent_arrays
from mom_pipeline.artifacts.store import POINTER, ArtifactStore
from mom_pipeline.artifacts.versions import FORMAT, MANIFEST
from mom_pipeline.core.files import sha256_of, temporary_path
from mom_pipeline.errors import DamagedArtifact, ExpiredArrays
from mom_pipeline_tests.mapped import is_mapped

DAY = date(2024, 3, 1)
DENSE = np.arange(6, dtype=np.float32).reshape(2, 3)
SPARSE = csr_array(np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0]]))


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def write(store: ArtifactStore, day: date = DAY, scale: float = 1.0) -> str:
    arrays = {"basis": scale * DENSE, "interactions": SPARSE, "ids": np.array(["é", "b"])}
    parents = {"raw_logs": "abc"}
    return store.write("m2_statistics", day, arrays, "settings", parents, {"users": 2}).version


def test_a_round_trip_keeps_everything(store: ArtifactStore) -> None:
    version = write(store)
    artifact = store.read("m2_statistics", DAY)
    np.testing.assert_array_equal(artifact.arrays["basis"], DENSE)
    assert artifact.arrays["basis"].dtype == np.float32
    interactions = artifact.arrays["interactions"]
    assert isinstance(interactions, csr_array)
    np.testing.assert_array_equal(interactions.toarray(), SPARSE.toarray())
    assert list(artifact.arrays["ids"]) == ["é", "b"]
    assert artifact.settings_fingerprint == "settings"
    assert (artifact.parents, artifact.metadata) == ({"raw_logs": "abc"}, {"users": 2})
    assert artifact.version == version == store.version("m2_statistics", DAY)


def test_large_arrays_can_stay_in_their_files(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = {
        "plain": DENSE,
        "columns": np.asfortranarray(DENSE),
        "empty": np.empty((0, 3)),
        "interactions": SPARSE,
    }
    store.write("m2_statistics", DAY, arrays, "settings")
    recent_arrays.clear()  # which keeps small ones in memory
    monkeypatch.setattr("mom_pipeline.artifacts.store._MAPPED_BYTES", 1)
    mapped = ArtifactStore(tmp_path / "artifacts", mapped=True).read("m2_statistics", DAY)
    for name in ("plain", "columns", "empty"):
        np.testing.assert_array_equal(mapped.arrays[name], arrays[name], strict=True)
    assert is_mapped(mapped.arrays["plain"])
    interactions = mapped.arrays["interactions"]
    assert isinstance(interactions, csr_array)
    np.testing.assert_array_equal(interactions.toarray(), SPARSE.toarray())
    assert is_mapped(interactions.data)
    assert is_mapped(interactions.indices)
    assert not is_mapped(arrays["plain"])


def test_equal_content_has_an_equal_version(store: ArtifactStore) -> None:
    first = write(store)
    assert write(store) == first
    assert write(store, scale=2.0) != first


def test_a_new_version_replaces_the_old_one(store: ArtifactStore) -> None:
    write(store)
    new = write(store, scale=2.0)
    np.testing.assert_array_equal(store.read("m2_statistics", DAY).arrays["basis"], 2 * DENSE)
    names = {path.name for path in (store.root / "m2_statistics" / "2024-03-01").iterdir()}
    assert names == {new, "current"}


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete"])
@pytest.mark.parametrize("name", ["basis.npz", "interactions.npz", MANIFEST])
def test_damage_is_found_on_reading(store: ArtifactStore, name: str, damage: str) -> None:
    path = store.root / "m2_statistics" / "2024-03-01" / write(store) / name
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "truncate":
        path.write_bytes(data[:-1])
    else:
        path.unlink()
    with pytest.raises(DamagedArtifact, match="materialize"):
        store.read("m2_statistics", DAY)


def test_writing_again_heals_damage(store: ArtifactStore) -> None:
    folder = store.root / "m2_statistics" / "2024-03-01" / write(store)
    (folder / "basis.npz").write_bytes(b"x")
    write(store)
    assert store.read("m2_statistics", DAY).metadata == {"users": 2}


def test_a_missing_artifact_says_what_to_do(store: ArtifactStore) -> None:
    assert store.version("m2_statistics", DAY) is None
    with pytest.raises(DamagedArtifact, match="materialize m2_statistics of 2024-03-01"):
        store.read("m2_statistics", DAY)


def test_python_objects_are_refused(store: ArtifactStore) -> None:
    with pytest.raises(ValueError, match="holds Python objects"):
        store.write("a", DAY, {"ids": np.array(["a", None], dtype=object)}, "s")
    assert store.version("a", DAY) is None


@pytest.mark.parametrize("name", ["../x", "A", "", "a/b", "a b"])
def test_names_are_plain(store: ArtifactStore, name: str) -> None:
    with pytest.raises(ValueError, match="lower case"):
        store.write(name, DAY, {"x": DENSE}, "s")
    with pytest.raises(ValueError, match="lower case"):
        store.write("a", DAY, {name: DENSE}, "s")


def test_non_finite_metadata_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store.write("a", DAY, {"x": DENSE}, "s", metadata={"loss": float("nan")})


def test_arrays_can_be_removed_and_the_manifest_stays(store: ArtifactStore) -> None:
    written = write(store, DAY)
    assert store.remove_arrays("m2_statistics", DAY)
    assert store.describe("m2_statistics", DAY).version == written
    with pytest.raises(ExpiredArrays, match="since it is old"):
        store.read("m2_statistics", DAY)
    assert not store.remove_arrays("m2_statistics", DAY)
    assert write(store, DAY) == written
    assert store.read("m2_statistics", DAY).arrays


_WRITE_FOREVER = """
import sys
from datetime import date
from pathlib import Path
import numpy as np
from mom_pipeline.artifacts.recent import recent_arrays
from mom_pipeline.artifacts.store import ArtifactStore
store = ArtifactStore(Path(sys.argv[1]))
n = 0
while True:
    n += 1
    store.write("model", date(2024, 3, 1), {"a": np.full(20_000, n), "b": np.full(20_000, n)}, "s")
    print(n, flush=True)
"""


def test_a_reader_beside_a_writer_sees_whole_artifacts(store: ArtifactStore) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITE_FOREVER, str(store.root)], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        seen = set()
        while len(seen) < 20:
            arrays = store.read("model", date(2024, 3, 1)).arrays
            np.testing.assert_array_equal(arrays["a"], arrays["b"])
            seen.add(int(arrays["a"][0]))
    finally:
        process.kill()
        process.communicate()


def test_a_killed_writer_leaves_a_whole_artifact(store: ArtifactStore) -> None:
    for n_writes in (1, 2, 5):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITE_FOREVER, str(store.root)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        for _ in range(n_writes):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        arrays = store.read("model", date(2024, 3, 1)).arrays
        np.testing.assert_array_equal(arrays["a"], arrays["b"])
        assert arrays["a"][0] >= n_writes


@pytest.mark.parametrize("written", [1, 99])
def test_a_manifest_of_another_format_is_refused(store: ArtifactStore, written: int) -> None:
    """Format 1 is that of the version before."""
    folder = store.root / "m2_statistics" / "2024-03-01"
    old = folder / write(store)
    manifest = json.loads((old / MANIFEST).read_text()) | {"format": written}
    text = json.dumps(manifest)
    new = folder / sha256_of(text.encode())
    shutil.copytree(old, new)
    (new / MANIFEST).write_text(text)
    (folder / POINTER).write_text(new.name)
    expected = (
        f"has format {written}, .* reads {FORMAT}: .*; materialize m2_statistics of 2024-03-01"
    )
    with pytest.raises(DamagedArtifact, match=expected):
        store.read("m2_statistics", DAY)


@pytest.mark.parametrize("pointer", [b"\xff\xfe", b"", b"../../secret", b"0" * 63])
def test_a_pointer_that_names_no_version_is_damage(store: ArtifactStore, pointer: bytes) -> None:
    version = write(store)
    (store.root / "m2_statistics" / "2024-03-01" / POINTER).write_bytes(pointer)
    for read in (store.read, store.describe):
        with pytest.raises(DamagedArtifact, match=r"current does not name a version; materialize"):
            read("m2_statistics", DAY)
    assert store.version("m2_statistics", DAY) != version
    assert write(store) == version
    assert store.read("m2_statistics", DAY).version == version


_WRITE_SOME = """
import sys
from datetime import date
from pathlib import Path
import numpy as np
from mom_pipeline.artifacts.recent import recent_arrays
from mom_pipeline.artifacts.store import ArtifactStore
store, writer, beside = ArtifactStore(Path(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
day = date(2024, 3, 1)
for n in range(40):
    array = np.full(20_000, n if n % 4 == 0 else 1_000 * writer + n)
    if beside == "remove" and n % 10 == 5:
        store.remove("model", day)
    store.write("model", day, {"a": array, "b": array}, "s")
    if beside == "read":
        arrays = store.read("model", day).arrays
        assert (arrays["a"] == arrays["b"]).all()
"""


@pytest.mark.parametrize("beside", ["read", "remove"])
def test_processes_that_write_the_same_day_do_not_destroy_each_other(
    store: ArtifactStore, beside: str
) -> None:
    """A part of what they write is equal; beside it they read the day, or remove it."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left_over = store.root / "model" / f".new.0123.{ended.pid}.tmp"
    left_over.mkdir(parents=True)
    alive = temporary_path(store.root / "model" / "new")
    alive.mkdir()
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITE_SOME, str(store.root), str(writer), beside])
        for writer in range(3)
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    version = store.read("model", DAY).version
    in_asset, in_day = (
        {path.name for path in folder.iterdir()}
        for folder in (left_over.parent, left_over.parent / "2024-03-01")
    )
    assert in_asset == {".lock", "2024-03-01", alive.name}
    assert in_day == {POINTER, version}
