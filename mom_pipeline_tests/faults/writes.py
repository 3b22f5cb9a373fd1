"""Processes that write the artifact of one day at the same time, and one that reads it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from mom_pipeline.artifacts.store import ArtifactStore
from mom_pipeline.errors import DamagedArtifact

DAY = date(2024, 3, 1)
_ASSET = "interaction_matrix"
_WRITERS = 4


@dataclass(frozen=True)
class Written:
    """writes: how many ended well.  failures: what the others said, and the reader."""

    writes: int
    reads: int
    failures: list[str]


def concurrent_writes(root: Path, n_writes: int) -> Written:
    """Let processes write different arrays in turns, and read in between."""
    store = ArtifactStore(root)
    _write(store, 0)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(root), str(n), str(n_writes // _WRITERS)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(_WRITERS)
    ]
    reads, failures = 0, []
    while any(process.poll() is None for process in processes):
        try:
            _require_whole(store)
            reads += 1
        except (DamagedArtifact, AssertionError) as error:
            failures.append(f"reader: {error}")
    for process in processes:
        said = process.communicate()[1]
        if process.returncode:
            failures.append(said.strip().splitlines()[-1])
    _require_whole(store)
    folders = [path for path in (root / _ASSET / DAY.isoformat()).iterdir() if path.is_dir()]
    if len(folders) != 1:
        failures.append(f"{len(folders)} versions are left")
    done = sum(process.returncode == 0 for process in processes) * (n_writes // _WRITERS)
    return Written(done, reads, failures)


def _write(store: ArtifactStore, number: int) -> None:
    arrays = {name: np.full(2000, number) for name in ("first", "second")}
    store.write(_ASSET, DAY, arrays, "settings", metadata={"number": number})


def _require_whole(store: ArtifactStore) -> None:
    """Every part must be of the same write."""
    artifact = store.read(_ASSET, DAY)
    numbers = {int(n) for array in artifact.dense.values() for n in np.unique(array)}
    assert numbers == {artifact.metadata["number"]}, f"a mixture of {numbers}"


if __name__ == "__main__":
    own, writes = int(sys.argv[2]), int(sys.argv[3])
    for write in range(writes):
        # The same content from two processes now and then: equal versions, written twice.
        number = write if write % 3 else own * writes + write
        _write(ArtifactStore(Path(sys.argv[1])), number)
    os._exit(0)
